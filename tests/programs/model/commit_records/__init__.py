"""The records of who wrote an offset (recipes 27), searched exhaustively."""
