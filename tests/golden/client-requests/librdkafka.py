"""One topic through confluent-kafka: BOOTSTRAP TOPIC [SETTING=VALUE...]. The client id is the topic."""

from __future__ import annotations

import sys
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType


def main() -> None:
    bootstrap, topic = sys.argv[1:3]
    common: dict[str, Any] = {"bootstrap.servers": bootstrap, "client.id": topic}
    common |= dict(setting.split("=") for setting in sys.argv[3:])
    admin = AdminClient(common)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin.describe_configs([resource])[resource].result()
    producer = Producer(common | {"enable.idempotence": "broker.version.fallback" not in common})
    producer.produce(topic, b"v", b"k", partition=0, timestamp=1_600_000_000_000)
    producer.flush()
    consumer = Consumer(common | {"group.id": topic, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    while consumer.poll(1) is None:
        pass
    consumer.offsets_for_times([TopicPartition(topic, 0, 1_500_000_000_000)])
    consumer.get_watermark_offsets(TopicPartition(topic, 0))
    consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    consumer.committed([TopicPartition(topic, 0)])
    consumer.close()
    admin.list_consumer_groups().result()
    admin.describe_consumer_groups([topic])[topic].result()
    admin.delete_consumer_groups([topic])[topic].result()
    admin.delete_topics([topic])[topic].result()


if __name__ == "__main__":
    main()
