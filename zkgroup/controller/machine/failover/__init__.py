"""What an active controller does on a takeover and when brokers, topics or notifications change."""
