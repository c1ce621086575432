import java.io.File;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.util.Scanner;
import org.apache.zookeeper.server.SnapshotFormatter;
import org.apache.zookeeper.server.persistence.TxnLogToolkit;

/**
 * What ZooKeeper's own tools print for many files, in one JVM.
 *
 *   java -cp "ZOOKEEPER-JARS" ServerFiles FILE...
 *
 * Writes FILE.txt beside each file, as `TxnLogToolkit -d` and `SnapshotFormatter -d` print it.
 */
public class ServerFiles {
    public static void main(String[] arguments) throws Exception {
        for (String argument : arguments) {
            File file = new File(argument);
            File output = new File(argument + ".txt");
            try (PrintStream stream = new PrintStream(new FileOutputStream(output), false, "UTF-8")) {
                PrintStream console = System.out;
                System.setOut(stream);
                try {
                    print(file);
                } finally {
                    System.setOut(console);
                }
            }
        }
    }

    private static void print(File file) throws Exception {
        if (file.getName().startsWith("snapshot.")) {
            new SnapshotFormatter().run(file.getPath(), true, false);
            return;
        }
        try (TxnLogToolkit log = new TxnLogToolkit(false, true, file.getPath(), false)) {
            log.dump(new Scanner(System.in));
        }
    }
}
