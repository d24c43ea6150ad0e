"""Creates a topic, produces idempotently, reads it back in a group, describes and deletes.

Prints "ok" when everything was as it should be, and says what was not otherwise.
"""
import sys

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

broker, topic, count = sys.argv[1], "python-roundtrip", 3000
conf = {"bootstrap.servers": broker}

admin = AdminClient(conf)
admin.create_topics([NewTopic(topic, num_partitions=3, replication_factor=1)])[topic].result(30)
meta = admin.list_topics(topic, timeout=30)
assert len(meta.topics[topic].partitions) == 3, meta.topics[topic].partitions

delivered, failed = {}, []


def on_delivery(err, msg):
    if err is not None:
        failed.append(err)
    else:
        delivered[(msg.partition(), msg.offset())] = (msg.key(), msg.value())


producer = Producer({**conf, "enable.idempotence": True, "acks": "all", "compression.type": "zstd"})
for i in range(count):
    producer.produce(topic, key=f"k{i % 97}", value=f"value {i}", headers={"n": str(i)}, on_delivery=on_delivery)
    producer.poll(0)
assert producer.flush(60) == 0, "records were left in the queue"
assert not failed, failed
assert len(delivered) == count, len(delivered)


def read(group, n):
    consumer = Consumer({**conf, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe([topic])
    got, idle = [], 0
    while len(got) < n and idle < 60:
        messages = consumer.consume(min(500, n - len(got)), timeout=1)
        idle = 0 if messages else idle + 1
        got += messages
    consumer.commit(asynchronous=False)
    consumer.close()
    return got


first, rest = read("python-readers", 1000), read("python-readers", count - 1000)
seen = {(m.partition(), m.offset()): (m.key(), m.value()) for m in first + rest}
assert len(first) + len(rest) == count, (len(first), len(rest))
assert seen == delivered, "what was read is not what was delivered"

low, high = Consumer({**conf, "group.id": "x"}).get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
assert low == 0 and high == sum(1 for p, _ in delivered if p == 0), (low, high)
assert "python-readers" in {g.group_id for g in admin.list_consumer_groups().result(30).valid}
admin.delete_consumer_groups(["python-readers"])["python-readers"].result(30)
admin.delete_topics([topic])[topic].result(30)
print("ok")
