"""Logs: the lines of a broker's replicas, in files that anybody can read or in memory.

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

* `line_log`: the ports `LineLog` and `LogDir`, and `MemoryLogDir`; `leader_epochs`: which leader epoch each
  line is from and where two logs part
* `log_dir`: `DiskLogDir`, a broker's folder; `partition_files`: the files of one partition as its log, how
  they are made, opened after a crash and deleted; `recovery`: what is good in those files
"""
