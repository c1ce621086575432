"""The records of who wrote an offset (recipes 28), searched exhaustively."""
