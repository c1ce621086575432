"""Clients of our brokers' lines: who appends them and who reads them.

Partitions of our brokers hold lines (`zkgroup.wire.replica_host`). Any broker tells who leads (Metadata
version 0); the leader itself tells its epoch, and takes and gives lines.

* `leaders`: who leads which partition, as far as a client knows; pure
* `producing`: which lines go next, and what became of those that went; pure
* `fetching`: what to ask leaders for next, and what their answers mean; pure
* `partitioning`: which partition a line goes to; pure
* `links`: connections to many brokers, waited for by one thread
* `cluster_link`: leaders and links together, which is what both clients stand on
* `producer`: `LineProducer`; `input_lines`: what it is given from a file or a pipe
* `reader`: `LineReader`
* `log_ends`: how far each replica is
"""
