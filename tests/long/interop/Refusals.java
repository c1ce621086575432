import java.io.FileInputStream;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * What Kafka's Java client throws of an attempt that its user has no right to: the attempts of refusals.py.
 *
 *   FILE ATTEMPT     FILE are the client's properties; prints `raised NAME`
 */
public final class Refusals {
    private static Properties settings(String file, String... more) throws Exception {
        Properties found = new Properties();
        try (FileInputStream in = new FileInputStream(file)) {
            found.load(in);
        }
        for (int i = 0; i < more.length; i += 2) found.put(more[i], more[i + 1]);
        return found;
    }

    public static void main(String[] args) throws Exception {
        String name = "nothing";
        try {
            attempt(args[0], args[1]);
        } catch (ExecutionException error) {
            name = error.getCause().getClass().getSimpleName();
        } catch (Exception error) {
            name = error.getClass().getSimpleName();
        }
        System.out.println("\nraised " + name);
        System.out.flush();
    }

    private static void attempt(String file, String name) throws Exception {
        switch (name) {
            case "produce":
                produce(file, "seen", "false");
                break;
            case "produce to an unknown topic":
                produce(file, "hidden", "false");
                break;
            case "produce idempotently":
                produce(file, "seen", "true");
                break;
            case "begin a transaction":
                ByteArraySerializer bytes = new ByteArraySerializer();
                Properties of = settings(file, "transactional.id", "t");
                try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(of, bytes, bytes)) {
                    producer.initTransactions();
                }
                break;
            case "read a topic":
                consume(file, "seen", null);
                break;
            case "read in a group":
                consume(file, "read", "others");
                break;
            case "read an unknown topic in a group":
                consume(file, "hidden", "mine");
                break;
            default:
                try (Admin admin = Admin.create(settings(file))) {
                    administer(admin, name);
                }
        }
    }

    private static void produce(String file, String topic, String idempotent) throws Exception {
        ByteArraySerializer bytes = new ByteArraySerializer();
        Properties of = settings(file, "enable.idempotence", idempotent, "acks", "all");
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(of, bytes, bytes)) {
            producer.send(new ProducerRecord<>(topic, new byte[] {1})).get();
        }
    }

    private static void consume(String file, String topic, String group) throws Exception {
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        Properties of = settings(file, "auto.offset.reset", "earliest", "enable.auto.commit", "false");
        if (group != null) of.put("group.id", group);
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(of, bytes, bytes)) {
            if (group == null) consumer.assign(List.of(new TopicPartition(topic, 0)));
            else consumer.subscribe(List.of(topic));
            consumer.poll(Duration.ofSeconds(60));
        }
    }

    private static void administer(Admin admin, String name) throws Exception {
        switch (name) {
            case "create a topic":
                admin.createTopics(List.of(new NewTopic("made", 1, (short) 1))).all().get();
                break;
            case "describe a topic":
                admin.describeTopics(List.of("hidden")).all().get();
                break;
            case "delete a topic":
                admin.deleteTopics(List.of("seen")).all().get();
                break;
            case "alter a configuration":
                ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, "seen");
                AlterConfigOp set = new AlterConfigOp(new ConfigEntry("retention.ms", "1"), AlterConfigOp.OpType.SET);
                admin.incrementalAlterConfigs(Map.of(topic, List.of(set))).all().get();
                break;
            case "describe a group":
                admin.describeConsumerGroups(List.of("others")).all().get();
                break;
            case "delete a group":
                admin.deleteConsumerGroups(List.of("mine")).all().get();
                break;
            case "add an access list":
                ResourcePattern pattern = new ResourcePattern(ResourceType.TOPIC, "seen", PatternType.LITERAL);
                AccessControlEntry entry =
                    new AccessControlEntry("User:alice", "*", AclOperation.WRITE, AclPermissionType.ALLOW);
                admin.createAcls(List.of(new AclBinding(pattern, entry))).all().get();
                break;
            default:
                throw new IllegalArgumentException(name);
        }
    }
}
