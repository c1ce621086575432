import java.util.Random;
import java.util.concurrent.TimeUnit;
import kafka.server.ControllerMutationQuotaManager;
import kafka.utils.QuotaUtils;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.metrics.QuotaViolationException;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.metrics.stats.Rate;
import org.apache.kafka.common.metrics.stats.TokenBucket;

/** Prints what Kafka's sensors answer to random uses: how long a client has to wait after each. */
public class Rates {
    public static void main(String[] args) {
        Random random = new Random(36);
        for (int i = 0; i < 40; i++) {
            boolean isBucket = i % 2 == 1;
            double bound = new double[] {0.5, 10, 1000, 1e6}[random.nextInt(4)];
            StringBuilder uses = new StringBuilder();
            Metrics metrics = new Metrics();
            Sensor sensor = metrics.sensor("s", new MetricConfig().quota(Quota.upperBound(bound))
                .timeWindow(1, TimeUnit.SECONDS).samples(11));
            sensor.add(metrics.metricName("r", "g"), isBucket ? new TokenBucket() : new Rate());
            long start = 1_000_000_000_000L, now = start;
            for (int j = 0; j < 30; j++) {
                int[] pauses = {0, 1, 7, 300, 999, 1000, 1001, 2500, 9000, 15000};
                now += pauses[random.nextInt(pauses.length)];
                double value = Math.floor(bound * random.nextInt(40) * random.nextDouble() / 4 + 1);
                long wait = 0;
                try {
                    sensor.record(value, now, true);
                } catch (QuotaViolationException e) {
                    wait = isBucket ? ControllerMutationQuotaManager.throttleTimeMs(e, now) : QuotaUtils.throttleTime(e, now);
                }
                uses.append(j == 0 ? "" : ",").append(String.format("[%d,%.0f,%d]", now - start, value, wait));
            }
            System.out.printf("{\"of\":\"%s\",\"bound\":%s,\"uses\":[%s]}%n", isBucket ? "TokenBucket" : "Rate", bound, uses);
        }
    }
}
