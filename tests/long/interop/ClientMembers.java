import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Members of consumer groups of Kafka's Java client in one JVM; commands and output are those of client_members.py. */
public final class ClientMembers implements ConsumerRebalanceListener {
    private static final PrintStream OUT = new PrintStream(
        new java.io.FileOutputStream(java.io.FileDescriptor.out), false, StandardCharsets.UTF_8);
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", "org.apache.kafka.clients.consumer.RangeAssignor",
        "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    private final String name;
    private final Properties settings = new Properties();
    private final String topic;
    /** The commands that hold: hold, stall, close. */
    private final Set<String> words = ConcurrentHashMap.newKeySet();
    /** What is read and not committed: partition to next offset. */
    private final TreeMap<Integer, Long> dirty = new TreeMap<>();
    private KafkaConsumer<byte[], byte[]> consumer;

    private ClientMembers(String[] command) {
        name = command[1];
        topic = command[4];
        settings.put("bootstrap.servers", command[2]);
        settings.put("group.id", command[3]);
        settings.put("partition.assignment.strategy", ASSIGNORS.get(command[5]));
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("max.poll.records", "20");
        settings.put("metadata.max.age.ms", "1000");
        for (int index = 6; index < command.length; index++) {
            String[] pair = command[index].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
    }

    public static void main(String[] ignored) throws Exception {
        Map<String, ClientMembers> members = new TreeMap<>();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] command = line.split("\t");
            if (command[0].equals("start")) {
                ClientMembers member = new ClientMembers(command);
                members.put(member.name, member);
                Thread thread = new Thread(member::guarded, member.name);
                thread.setDaemon(true);
                thread.start();
                continue;
            }
            Set<String> words = members.get(command[1]).words;
            if (command[0].equals("commit")) words.remove("hold");
            else if (command[0].equals("resume")) words.remove("stall");
            else words.add(command[0]);
        }
        Runtime.getRuntime().halt(0);
    }

    private void guarded() {
        try {
            ByteArrayDeserializer bytes = new ByteArrayDeserializer();
            consumer = new KafkaConsumer<>(settings, bytes, bytes);
            consumer.subscribe(List.of(topic), this);
            run();
        } catch (Exception error) {
            say("failed", "\"error\":" + quote(error.toString()));
            error.printStackTrace();
            if (consumer == null) return;
            consumer.close();
            say("closed", null);
        }
    }

    private void run() throws InterruptedException {
        boolean held = false;
        while (!words.contains("close")) {
            if (words.contains("stall")) {
                say("stalled", null);
                while (words.contains("stall") && !words.contains("close")) Thread.sleep(10);
                say("resumed", null);
            }
            if (held != words.contains("hold")) {
                held = !held;
                say(held ? "holding" : "committing", null);
            }
            if (!dirty.isEmpty() && !held) commit();
            ConsumerRecords<byte[], byte[]> polled = consumer.poll(Duration.ofMillis(100));
            for (TopicPartition partition : polled.partitions()) read(partition.partition(), polled.records(partition));
        }
        say("closing", null);
        consumer.close();
        say("closed", null);
    }

    private void read(int partition, List<ConsumerRecord<byte[], byte[]>> records) {
        long first = records.get(0).offset();
        long last = first - 1;
        for (ConsumerRecord<byte[], byte[]> record : records) {
            if (record.offset() != last + 1) {
                sayRead(partition, first, last);
                first = record.offset();
            }
            last = record.offset();
        }
        sayRead(partition, first, last);
    }

    private void sayRead(int partition, long first, long last) {
        dirty.put(partition, last + 1);
        say("read", "\"partition\":" + partition + ",\"first\":" + first + ",\"last\":" + last);
    }

    private void commit() {
        String offsets = "\"offsets\":" + dirty.entrySet().stream()
            .map(one -> "\"" + one.getKey() + "\":" + one.getValue()).collect(Collectors.joining(",", "{", "}"));
        try {
            consumer.commitSync();
        } catch (KafkaException error) {
            say("refused", offsets + ",\"error\":" + quote(error.toString()));
            return;
        }
        say("committed", offsets);
        dirty.clear();
    }

    @Override public void onPartitionsAssigned(Collection<TopicPartition> assigned) {
        say("assigned", names(assigned));
    }

    @Override public void onPartitionsRevoked(Collection<TopicPartition> revoked) {
        taken("revoked", revoked);
    }

    /** Since 2.4. */
    public void onPartitionsLost(Collection<TopicPartition> lost) {
        taken("lost", lost);
    }

    private void taken(String event, Collection<TopicPartition> partitions) {
        partitions.forEach(one -> dirty.remove(one.partition()));
        say(event, names(partitions));
    }

    private static String names(Collection<TopicPartition> partitions) {
        return partitions.stream().map(one -> one.partition()).sorted().map(String::valueOf)
            .collect(Collectors.joining(",", "\"partitions\":[", "]"));
    }

    private void say(String event, String fields) {
        synchronized (OUT) {
            Instant now = Instant.now();
            long at = now.getEpochSecond() * 1_000_000 + now.getNano() / 1000;
            OUT.println("{\"member\":" + quote(name) + ",\"event\":" + quote(event) + ",\"at\":" + at
                + (fields == null ? "" : "," + fields) + "}");
            OUT.flush();
        }
    }

    private static String quote(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char letter : text.toCharArray()) {
            if (letter == '"' || letter == '\\') out.append('\\').append(letter);
            else if (letter < 0x20) out.append(String.format("\\u%04x", (int) letter));
            else out.append(letter);
        }
        return out.append('"').toString();
    }
}
