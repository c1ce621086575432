"""Logs: the records of a broker's replicas in Kafka's files, and the lines that they will replace.

Below a broker's folder:

| file | what is in it |
| --- | --- |
| `meta.json` | whose folder it is: cluster id, broker id, and a uuid that no other folder has |
| `lock` | held by the process that uses the folder |
| `<topic>/<partition>.jsonl` | the lines, as `FileSource` reads them |
| `<topic>/<partition>.index` | base offset, count, byte position, leader epoch, CRC-32C of each batch |
| `<topic>/<partition>.epochs` | text: a line for each leader epoch, with its start offset |
| `<topic>/<partition>.high-watermark` | text; -1 in a replica that was never level with a leader |
| `<topic>/<partition>.deleted` | was the `.jsonl` of a partition whose deletion has not been finished |

What has been answered is in the files, so it outlives the process. It does not outlive the machine, unless
`Flush.BATCH` pays for that with two fsyncs a batch. `meta.json`, written once, is forced in any case.

* `line_log`: the ports `LineLog` and `LogDir`, and `MemoryLogDir`; `log_dir`: `DiskLogDir`, a broker's
  folder; `partition_files`: the files of one partition as its log, how they are made, opened after a crash
  and deleted; `recovery`: what is good in those files

Records (docs/adr/0033):

* `data_dir`: `DataDir`, a broker's data folder, with its logs; `storage`: its files, on disk or in memory
* `partition_log`: `PartitionLog`, the log of a replica; `log_loader`: how one is made and opened
* `segment`, `index`: the files of records, and how they are searched; `record_search`: records by their time
* `client_batches`: batches are checked and stamped; `producer_state`: sequences of idempotent producers
* `leader_epochs`: which leader epoch each record is from and where two logs part; `log_config`: settings,
  rolling and retention; `checkpoints`: Kafka's small text files
"""
