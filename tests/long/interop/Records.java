import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Sends records with Kafka's own producer, and reads them with its consumer.
 *
 * A record is a line: timestamp, key, value, then name and value of each header, separated by blanks; bytes
 * as base64 behind an equals sign, null as a minus sign.
 *
 *   produce BOOTSTRAP TOPIC PARTITION FILE NAME=VALUE...   prints the offset of each record, as it is known
 *   consume BOOTSTRAP TOPIC PARTITION OFFSET COUNT         prints offset and record
 *   offset BOOTSTRAP TOPIC PARTITION TIMESTAMP             prints the offset for a time, or null
 */
public final class Records {
    private static final PrintStream OUT = System.out;

    public static void main(String[] args) throws Exception {
        TopicPartition partition = new TopicPartition(args[2], Integer.parseInt(args[3]));
        switch (args[0]) {
            case "produce":
                produce(args, partition);
                break;
            case "consume":
                consume(args[1], partition, Long.parseLong(args[4]), Integer.parseInt(args[5]));
                break;
            default:
                offset(args[1], partition, Long.parseLong(args[4]));
        }
        OUT.flush();
    }

    private static void produce(String[] args, TopicPartition partition) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[1]);
        settings.put("acks", "all");
        settings.put("linger.ms", "1");
        for (int i = 5; i < args.length; i++) {
            String[] setting = args[i].split("=", 2);
            settings.put(setting[0], setting[1]);
        }
        ByteArraySerializer bytes = new ByteArraySerializer();
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, bytes, bytes)) {
            for (String line : Files.readAllLines(Path.of(args[4]))) {
                sent.add(producer.send(record(line, partition)));
                if (sent.size() % 100 == 0) {
                    OUT.println(sent.get(sent.size() - 100).get().offset());
                    OUT.flush();
                    for (Future<RecordMetadata> one : sent.subList(sent.size() - 99, sent.size())) {
                        OUT.println(one.get().offset());
                    }
                }
            }
            for (Future<RecordMetadata> one : sent.subList(sent.size() / 100 * 100, sent.size())) {
                OUT.println(one.get().offset());
            }
        }
    }

    private static ProducerRecord<byte[], byte[]> record(String line, TopicPartition partition) {
        String[] fields = line.split(" ");
        List<Header> headers = new ArrayList<>();
        for (int i = 3; i < fields.length; i += 2) {
            headers.add(new RecordHeader(new String(bytes(fields[i]), StandardCharsets.UTF_8), bytes(fields[i + 1])));
        }
        long timestamp = Long.parseLong(fields[0]);
        return new ProducerRecord<>(
            partition.topic(), partition.partition(), timestamp, bytes(fields[1]), bytes(fields[2]), headers);
    }

    private static KafkaConsumer<byte[], byte[]> consumer(String bootstrap) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "none");
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        return new KafkaConsumer<>(settings, bytes, bytes);
    }

    private static void consume(String bootstrap, TopicPartition partition, long offset, int count) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(bootstrap)) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, offset);
            int found = 0;
            while (found < count) {
                for (ConsumerRecord<byte[], byte[]> one : consumer.poll(Duration.ofSeconds(1))) {
                    if (found++ == count) {
                        return;
                    }
                    StringBuilder line = new StringBuilder();
                    line.append(one.offset()).append(' ').append(one.timestamp());
                    line.append(' ').append(text(one.key())).append(' ').append(text(one.value()));
                    for (Header header : one.headers()) {
                        line.append(' ').append(text(header.key().getBytes(StandardCharsets.UTF_8)));
                        line.append(' ').append(text(header.value()));
                    }
                    OUT.println(line);
                }
            }
        }
    }

    private static void offset(String bootstrap, TopicPartition partition, long timestamp) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(bootstrap)) {
            OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(partition, timestamp)).get(partition);
            OUT.println(found == null ? "null" : found.offset() + " " + found.timestamp());
        }
    }

    private static byte[] bytes(String text) {
        return text.equals("-") ? null : Base64.getDecoder().decode(text.substring(1));
    }

    private static String text(byte[] bytes) {
        return bytes == null ? "-" : "=" + Base64.getEncoder().encodeToString(bytes);
    }
}
