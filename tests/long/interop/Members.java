import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import kafka.consumer.Consumer;
import kafka.consumer.ConsumerConfig;
import kafka.consumer.ConsumerIterator;
import kafka.consumer.KafkaStream;
import kafka.javaapi.consumer.ConsumerConnector;
import kafka.message.MessageAndMetadata;
import org.apache.log4j.AppenderSkeleton;
import org.apache.log4j.Level;
import org.apache.log4j.Logger;
import org.apache.log4j.spi.LoggingEvent;

/**
 * Members of consumer groups of Kafka 0.8.2.2 in one JVM, each with a connector and a session of its own.
 *
 * Lines of the input, with tabs between the words: "start ZOOKEEPER GROUP CONSUMER-ID TOPIC THREADS NAME=VALUE..."
 * with properties of the consumer, and "stop GROUP_CONSUMER-ID", which shuts its connector down (and commits where
 * auto.commit.enable says so). With the end of the input the JVM ends, and no member leaves.
 *
 * Lines of the output are JSON objects with "member" (GROUP_CONSUMER-ID; empty for what cannot be told apart),
 * "event" and "at" (epoch ms):
 *   starting, ready (the first rebalance is over), failed (error), message (topic, partition, offset, thread, key,
 *   value), rebalance (phase begin|end, attempt; "end" comes for a failed attempt too), log (level, logger, text,
 *   error; warnings of the library), stopped (messages).
 */
public final class Members {
    private static final PrintStream OUT = new PrintStream(
        new java.io.FileOutputStream(java.io.FileDescriptor.out), false, StandardCharsets.UTF_8);
    private static final Map<String, Members> MEMBERS = new ConcurrentHashMap<>();

    private final String id;
    private final String topic;
    private final int threads;
    private final Properties settings = new Properties();
    private ConsumerConnector connector;

    private Members(String[] words) {
        id = words[2] + "_" + words[3];
        topic = words[4];
        threads = Integer.parseInt(words[5]);
        settings.setProperty("zookeeper.connect", words[1]);
        settings.setProperty("group.id", words[2]);
        settings.setProperty("consumer.id", words[3]);
        settings.setProperty("auto.offset.reset", "smallest");
        for (int index = 6; index < words.length; index++) {
            String[] pair = words[index].split("=", 2);
            settings.setProperty(pair[0], pair[1]);
        }
    }

    public static void main(String[] ignored) throws Exception {
        Logger library = Logger.getLogger("kafka");
        library.setLevel(Level.INFO);
        library.setAdditivity(false);
        library.addAppender(new Tap());
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t");
            if (words[0].equals("start")) {
                Members member = new Members(words);
                MEMBERS.put(member.id, member);
                thread(member.id, member::start);
            } else {
                Members member = MEMBERS.remove(words[1]);
                thread("end of " + member.id, member::stop);
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private static void thread(String name, Runnable work) {
        Thread thread = new Thread(work, name);
        thread.setDaemon(true);
        thread.start();
    }

    private synchronized void start() {
        say(id, "starting");
        List<KafkaStream<byte[], byte[]>> streams;
        try {
            connector = Consumer.createJavaConsumerConnector(new ConsumerConfig(settings));
            streams = connector.createMessageStreams(Map.of(topic, threads)).get(topic);
        } catch (Exception error) {
            say(id, "failed", "error", error.toString());
            return;
        }
        say(id, "ready", "streams", streams.size());
        for (int index = 0; index < streams.size(); index++) {
            int number = index;
            KafkaStream<byte[], byte[]> stream = streams.get(index);
            thread("stream " + number + " of " + id, () -> read(number, stream));
        }
    }

    private synchronized void stop() {
        if (connector != null) {
            connector.shutdown();
        }
        say(id, "stopped");
    }

    private void read(int number, KafkaStream<byte[], byte[]> stream) {
        ConsumerIterator<byte[], byte[]> messages = stream.iterator();
        while (messages.hasNext()) {
            MessageAndMetadata<byte[], byte[]> one = messages.next();
            say(id, "message", "topic", one.topic(), "partition", one.partition(), "offset", one.offset(),
                "thread", number, "key", text(one.key()), "value", text(one.message()));
        }
    }

    /** Prints one line; values are String, Number, Boolean or null. */
    private static void say(String member, String event, Object... pairs) {
        StringBuilder line = new StringBuilder("{\"member\":").append(quote(member))
            .append(",\"event\":").append(quote(event)).append(",\"at\":").append(System.currentTimeMillis());
        for (int index = 0; index < pairs.length; index += 2) {
            Object value = pairs[index + 1];
            line.append(',').append(quote((String) pairs[index])).append(':')
                .append(value instanceof String ? quote((String) value) : String.valueOf(value));
        }
        synchronized (OUT) {
            OUT.println(line.append('}'));
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

    /** UTF-8 text, or "base64:..." when the bytes are not text. */
    private static String text(byte[] bytes) {
        if (bytes == null) return null;
        try {
            return StandardCharsets.UTF_8.newDecoder().onMalformedInput(CodingErrorAction.REPORT)
                .decode(ByteBuffer.wrap(bytes)).toString();
        } catch (CharacterCodingException error) {
            return "base64:" + Base64.getEncoder().encodeToString(bytes);
        }
    }

    /** Turns the library's log into events: begin and end of each rebalance attempt, and what it complains about. */
    private static final class Tap extends AppenderSkeleton {
        private static final Pattern ATTEMPT = Pattern.compile("(begin|end) rebalancing consumer (\\S+) try #(\\d+)");

        @Override protected void append(LoggingEvent event) {
            String line = String.valueOf(event.getRenderedMessage());
            Matcher attempt = ATTEMPT.matcher(line);
            if (attempt.find()) {
                say(attempt.group(2), "rebalance", "phase", attempt.group(1), "attempt", Integer.valueOf(attempt.group(3)));
            } else if (event.getLevel().isGreaterOrEqual(Level.WARN)) {
                String[] trace = event.getThrowableStrRep();
                say(whose(line), "log", "level", event.getLevel().toString(), "logger", event.getLoggerName(),
                    "text", line, "error", trace == null ? null : trace[0]);
            }
        }

        /** The connector of a member names it first, in brackets. */
        private static String whose(String line) {
            int end = line.startsWith("[") ? line.indexOf(']') : -1;
            String name = end < 0 ? "" : line.substring(1, end);
            return MEMBERS.containsKey(name) ? name : "";
        }

        @Override public void close() {}
        @Override public boolean requiresLayout() { return false; }
    }
}
