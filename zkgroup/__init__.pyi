# The public names, for type checkers and for `zkgroup.exports`: one list for both.
from zkgroup.admin.client.admin import Admin as Admin
from zkgroup.admin.client.admin import AsyncAdmin as AsyncAdmin
from zkgroup.assignment import assign as assign
from zkgroup.consumer.aio import AsyncConsumer as AsyncConsumer
from zkgroup.consumer.aio import AsyncGroupMember as AsyncGroupMember
from zkgroup.consumer.callbacks import AsyncRebalanceListener as AsyncRebalanceListener
from zkgroup.consumer.callbacks import RebalanceListener as RebalanceListener
from zkgroup.consumer.lease import Lease as Lease
from zkgroup.consumer.sync import Consumer as Consumer
from zkgroup.consumer.sync import GroupMember as GroupMember
from zkgroup.errors import CommitResult as CommitResult
from zkgroup.model.values import Blacklist as Blacklist
from zkgroup.model.values import TopicPartition as TopicPartition
from zkgroup.model.values import Whitelist as Whitelist
from zkgroup.settings import GroupSettings as GroupSettings
from zkgroup.sources.files import FileSource as FileSource
from zkgroup.sources.kafka import KafkaSource as KafkaSource
from zkgroup.sources.port import Record as Record
from zkgroup.sources.port import RecordSource as RecordSource
from zkgroup.zookeeper.client import ZooKeeperClient as ZooKeeperClient
from zkgroup.zookeeper.settings import ClientSettings as ClientSettings

__version__: str
