import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** One topic's life through Kafka's clients of any release from 0.11 on. Arguments: bootstrap, topic. */
public class Asks {
  public static void main(String[] a) throws Exception {
    String topic = a[1];
    Map<String, Object> p = new HashMap<>();
    p.put("bootstrap.servers", a[0]);
    p.put("client.id", topic);
    TopicPartition tp = new TopicPartition(topic, 0);
    try (AdminClient admin = AdminClient.create(p)) {
      admin.createTopics(Collections.singleton(new NewTopic(topic, 1, (short) 1))).all().get();
      ConfigResource of = new ConfigResource(ConfigResource.Type.TOPIC, topic);
      admin.describeConfigs(Collections.singleton(of)).all().get();
      Map<String, Object> q = new HashMap<>(p);
      for (String way : new String[] {"key", "value"}) {
        q.put(way + ".serializer", "org.apache.kafka.common.serialization.StringSerializer");
        q.put(way + ".deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
      }
      q.put("enable.idempotence", "true");
      q.put("acks", "all");
      try (KafkaProducer<String, String> producer = new KafkaProducer<>(q)) {
        producer.send(new ProducerRecord<>(topic, 0, 1_600_000_000_000L, "k", "v")).get();
      }
      q.put("group.id", topic);
      q.put("enable.auto.commit", "false");
      try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(q)) {
        consumer.assign(Collections.singleton(tp));
        consumer.seekToBeginning(Collections.singleton(tp));
        int found = 0;
        while (found == 0) found = poll(consumer).count();
        consumer.offsetsForTimes(Collections.singletonMap(tp, 1_500_000_000_000L));
        consumer.commitSync(Collections.singletonMap(tp, new OffsetAndMetadata(1, "m")));
        committed(consumer, tp);
      }
      attempt(() -> {
        Object found = AdminClient.class.getMethod("listConsumerGroups").invoke(admin);
        ((org.apache.kafka.common.KafkaFuture<?>) found.getClass().getMethod("all").invoke(found)).get();
      });
      attempt(() -> {
        Object found = AdminClient.class.getMethod("describeConsumerGroups", Collection.class).invoke(admin, Collections.singleton(topic));
        ((org.apache.kafka.common.KafkaFuture<?>) found.getClass().getMethod("all").invoke(found)).get();
      });
      attempt(() -> {
        Object found = AdminClient.class.getMethod("deleteConsumerGroups", Collection.class).invoke(admin, Collections.singleton(topic));
        ((org.apache.kafka.common.KafkaFuture<?>) found.getClass().getMethod("all").invoke(found)).get();
      });
      admin.deleteTopics(Collections.singleton(topic)).all().get();
    }
    System.out.println(topic);
  }

  interface Act { void run() throws Exception; }

  /** What a release does not have is left out. */
  static void attempt(Act act) {
    try { act.run(); } catch (Throwable e) { System.err.println(e); }
  }

  @SuppressWarnings("unchecked")
  static ConsumerRecords<String, String> poll(KafkaConsumer<String, String> c) throws Exception {
    try {
      return (ConsumerRecords<String, String>) KafkaConsumer.class.getMethod("poll", Duration.class).invoke(c, Duration.ofSeconds(1));
    } catch (NoSuchMethodException e) {
      return (ConsumerRecords<String, String>) KafkaConsumer.class.getMethod("poll", long.class).invoke(c, 1000L);
    }
  }

  static void committed(KafkaConsumer<String, String> c, TopicPartition tp) throws Exception {
    try {
      KafkaConsumer.class.getMethod("committed", Set.class).invoke(c, Collections.singleton(tp));
    } catch (NoSuchMethodException e) {
      KafkaConsumer.class.getMethod("committed", TopicPartition.class).invoke(c, tp);
    }
  }
}
