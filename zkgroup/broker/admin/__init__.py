"""The requests by which Kafka's tools and clients change a cluster, at a broker's port.

Any broker answers them: it writes the ZooKeeper requests that the command line writes (`zkgroup.admin`), and
waits until they have taken effect, up to the request's timeout.

* `rows`: `AdminRows` is their part of the table of served APIs, and loads the rest with the first request
* `apis`: `AdminApis` has a handler for each request; it calls the others on its own threads
* `topics`: CreateTopics, DeleteTopics, CreatePartitions, and the topics that Metadata creates
* `configs`: DescribeConfigs, AlterConfigs, IncrementalAlterConfigs
* `partitions`: ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments
* `quotas`: DescribeClientQuotas, AlterClientQuotas
* `users`: DescribeUserScramCredentials, AlterUserScramCredentials
* `failures`: Kafka's error code for each error of zkgroup
"""
