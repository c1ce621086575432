import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.processor.StateRestoreListener;

/**
 * Counts words with Kafka Streams: of all time, which it sends to a topic, and by the hour.
 *
 * Arguments: addresses, application id, folder of the stores, topic of lines, topic of counts. It prints a line of
 * JSON for each state and each restored store, and runs until it is ended.
 */
public final class WordCount {
    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("application.id", arguments[1]);
        settings.put("state.dir", arguments[2]);
        settings.put("default.key.serde", Serdes.StringSerde.class);
        settings.put("default.value.serde", Serdes.StringSerde.class);
        settings.put("replication.factor", "3");
        settings.put("num.stream.threads", "2");
        settings.put("commit.interval.ms", "100");
        settings.put("repartition.purge.interval.ms", "100");
        settings.put("statestore.cache.max.bytes", "0");
        settings.put("session.timeout.ms", "3000");
        settings.put("heartbeat.interval.ms", "500");
        settings.put("auto.offset.reset", "earliest");

        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> lines = builder.stream(arguments[3]);
        KGroupedStream<String, String> words = lines
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.as("words"));
        words.count(Materialized.as("counts")).toStream().mapValues(String::valueOf).to(arguments[4]);
        words.windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofHours(1))).count(Materialized.as("hourly"));

        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setStateListener((state, former) -> print("{\"event\":\"%s\"}", state));
        streams.setGlobalStateRestoreListener(new StateRestoreListener() {
            @Override
            public void onRestoreStart(TopicPartition partition, String store, long first, long end) { }

            @Override
            public void onBatchRestored(TopicPartition partition, String store, long last, long count) { }

            @Override
            public void onRestoreEnd(TopicPartition partition, String store, long records) {
                print("{\"event\":\"restored\",\"store\":\"%s\",\"records\":%d}", store, records);
            }
        });
        streams.start();
    }

    private static synchronized void print(String text, Object... values) {
        System.out.println(String.format(text, values));
        System.out.flush();
    }
}
