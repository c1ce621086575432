import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.OpResult;
import org.apache.zookeeper.ZooKeeper;

/**
 * Bulk reads of ZooKeeper's own Java client (multi of Op.getData), as fast as they get.
 *
 *   java -cp "ZOOKEEPER-JARS" BulkReads ADDRESS PATH-PREFIX COUNT BATCH REPEATS plain|pipelined
 *
 * Reads PATH-PREFIX + 0 .. COUNT-1 in transactions of BATCH, REPEATS times (the first ones are the JIT's), and
 * prints one line of JSON: the seconds of each repeat. "plain" calls multi and waits, as most programs do;
 * "pipelined" sends all transactions before it awaits the first answer.
 */
public class BulkReads {
    public static void main(String[] args) throws Exception {
        String prefix = args[1];
        int count = Integer.parseInt(args[2]), batch = Integer.parseInt(args[3]), repeats = Integer.parseInt(args[4]);
        boolean pipelined = args[5].equals("pipelined");
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper zk = new ZooKeeper(args[0], 30000, event -> connected.countDown());
        connected.await();
        double[] seconds = new double[repeats];
        for (int r = 0; r < repeats; r++) {
            AtomicInteger read = new AtomicInteger();
            CountDownLatch answers = new CountDownLatch((count + batch - 1) / batch);
            long began = System.nanoTime();
            for (int first = 0; first < count; first += batch) {
                List<Op> operations = new ArrayList<>();
                for (int i = first; i < Math.min(count, first + batch); i++) operations.add(Op.getData(prefix + i));
                if (pipelined) {
                    zk.multi(operations, (code, path, context, results) -> {
                        count(results, read);
                        answers.countDown();
                    }, null);
                } else {
                    count(zk.multi(operations), read);
                    answers.countDown();
                }
            }
            answers.await();
            seconds[r] = (System.nanoTime() - began) / 1e9;
            if (read.get() != count) throw new IllegalStateException("read " + read + " of " + count);
        }
        System.out.println("{\"seconds\":" + Arrays.toString(seconds) + "}");
        zk.close();
    }

    static void count(List<OpResult> results, AtomicInteger read) {
        for (OpResult result : results)
            if (((OpResult.GetDataResult) result).getData().length > 0) read.incrementAndGet();
    }
}
