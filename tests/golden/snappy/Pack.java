// Packs a file with the library that ZooKeeper uses for snapshot.compression.method=snappy (SnapStream.java).
// java -cp snappy-java.jar Pack.java FROM TO [BLOCK_BYTES]
import java.io.FileOutputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import org.xerial.snappy.SnappyOutputStream;

public class Pack {
    public static void main(String[] args) throws Exception {
        OutputStream file = new FileOutputStream(args[1]);
        OutputStream packed =
            args.length > 2 ? new SnappyOutputStream(file, Integer.parseInt(args[2])) : new SnappyOutputStream(file);
        packed.write(Files.readAllBytes(Path.of(args[0])));
        packed.close();
    }
}
