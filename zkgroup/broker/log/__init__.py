"""Logs: the records of a broker's replicas, in Kafka's files or in memory (docs/adr/0033).

Below a broker's data folder:

| file | what is in it |
| --- | --- |
| `meta.properties` | whose folder it is: cluster id, broker id, and an id that no other folder has |
| `.lock` | held by the process that uses the folder |
| `.kafka_cleanshutdown` | after a clean shutdown: nothing has to be checked at the next start |
| `recovery-point-offset-checkpoint` | by partition: what is forced to the disk |
| `log-start-offset-checkpoint`, `replication-offset-checkpoint` | by partition: log start, high watermark |

In the folder `<topic>-<partition>` of a partition:

| file | what is in it |
| --- | --- |
| `<base offset>.log`, `.index`, `.timeindex` | a segment with record batches, and its indexes |
| `<offset>.snapshot` | the idempotent producers up to this offset |
| `leader-epoch-checkpoint` | each leader epoch, with its start offset |
| `high-watermark` | the high watermark, written whenever it moves (docs/adr/0018) |

What has been answered is in the files, so it outlives the process. It does not outlive the machine, unless
`Flush.BATCH` pays for that with a forced write for each append.

* `data_dir`: `DataDir`, a broker's data folder, with its logs; `storage`: its files, on disk or in memory
* `partition_log`: `PartitionLog`, the log of a replica; `log_loader`: how one is made and opened
* `segment`, `index`: the files of records, and how they are searched; `record_search`: records by their time
* `client_batches`: batches are checked and stamped; `producer_state`: sequences of idempotent producers
* `leader_epochs`: which leader epoch each record is from and where two logs part; `log_config`: settings,
  rolling and retention; `checkpoints`: Kafka's small text files
"""
