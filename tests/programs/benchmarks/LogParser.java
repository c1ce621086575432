import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.File;
import java.io.FileInputStream;
import java.lang.management.ManagementFactory;
import java.util.zip.Adler32;
import org.apache.jute.BinaryInputArchive;
import org.apache.jute.Record;
import org.apache.zookeeper.server.TxnLogEntry;
import org.apache.zookeeper.server.persistence.FileHeader;
import org.apache.zookeeper.server.persistence.FileTxnLog;
import org.apache.zookeeper.server.persistence.Util;
import org.apache.zookeeper.server.util.SerializeUtils;
import org.apache.zookeeper.txn.MultiTxn;
import org.apache.zookeeper.txn.Txn;

/**
 * ZooKeeper's own classes as fast as they get: behind a buffer, every checksum compared, multis opened.
 *
 *   java -cp "ZOOKEEPER-JARS" LogParser LOG REPEATS
 *
 * Reads the whole log REPEATS times (the first ones are the JIT's) and prints one line of JSON: operations, and
 * the CPU seconds and the seconds of each repeat. The CPU is that of the reading thread: JIT and collector are
 * left out.
 */
public class LogParser {
    static long operations(Record record) throws Exception {
        if (!(record instanceof MultiTxn)) return 1;
        long count = 0;
        for (Txn part : ((MultiTxn) record).getTxns()) {
            Record body = bodyOf(part.getType());
            if (body != null) {
                java.nio.ByteBuffer buffer = java.nio.ByteBuffer.wrap(part.getData());
                org.apache.zookeeper.server.ByteBufferInputStream.byteBuffer2Record(buffer, body);
            }
            count++;
        }
        return count;
    }

    static Record bodyOf(int type) {
        switch (type) {
            case 1: case 15: return new org.apache.zookeeper.txn.CreateTxn();
            case 2: case 20: return new org.apache.zookeeper.txn.DeleteTxn();
            case 5: case 16: return new org.apache.zookeeper.txn.SetDataTxn();
            case 13: return new org.apache.zookeeper.txn.CheckVersionTxn();
            case -1: return new org.apache.zookeeper.txn.ErrorTxn();
            default: return null;
        }
    }

    static long read(File file) throws Exception {
        long count = 0;
        try (BufferedInputStream in = new BufferedInputStream(new FileInputStream(file), 1 << 16)) {
            BinaryInputArchive archive = BinaryInputArchive.getArchive(in);
            FileHeader header = new FileHeader();
            header.deserialize(archive, "fileheader");
            if (header.getMagic() != FileTxnLog.TXNLOG_MAGIC) throw new IllegalStateException("no log");
            Adler32 sum = new Adler32();
            while (true) {
                long expected = archive.readLong("crcvalue");
                byte[] bytes = Util.readTxnBytes(archive);
                if (bytes == null || bytes.length == 0) return count;
                sum.reset();
                sum.update(bytes, 0, bytes.length);
                if (expected != sum.getValue()) throw new IllegalStateException("checksum");
                TxnLogEntry entry = SerializeUtils.deserializeTxn(bytes);
                count += operations(entry.getTxn());
            }
        } catch (EOFException end) {
            return count;
        }
    }

    public static void main(String[] args) throws Exception {
        int repeats = Integer.parseInt(args[1]);
        StringBuilder cpu = new StringBuilder(), seconds = new StringBuilder();
        long count = 0;
        for (int i = 0; i < repeats; i++) {
            long cpuBegan = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime(), began = System.nanoTime();
            count = read(new File(args[0]));
            String comma = i == 0 ? "" : ", ";
            seconds.append(comma).append((System.nanoTime() - began) / 1e9);
            cpu.append(comma).append((ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() - cpuBegan) / 1e9);
        }
        System.out.println("{\"operations\": " + count + ", \"cpu_s\": [" + cpu + "], \"seconds\": [" + seconds + "]}");
    }
}
