"""The command line `zkgroup`: parse, call one public function, render. Decides nothing itself."""
