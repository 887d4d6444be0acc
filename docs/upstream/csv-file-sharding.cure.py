"""Lines of text can be sharded by file, and be taken apart behind it."""

import pathlib
import tempfile

import tensorflow as tf

folder = pathlib.Path(tempfile.mkdtemp())
for name, lines in (("a", "1\n2\n"), ("b", "3\n4\n")):
    (folder / name).write_text(lines)
files = tf.data.Dataset.from_tensor_slices([str(folder / "a"), str(folder / "b")])
lines = files.interleave(tf.data.TextLineDataset, cycle_length=1)
dataset = lines.map(lambda line: tf.io.decode_csv(line, [tf.constant([], tf.int64)])[0])
# What MultiWorkerMirroredStrategy does on worker 0 and 1 of 2 with AutoShardPolicy.FILE, which is policy 1.
shards = []
for index in range(2):
    sharded = tf.raw_ops.AutoShardDataset(
        input_dataset=dataset._variant_tensor,  # noqa: SLF001 - raw ops take nothing else
        num_workers=2,
        index=index,
        auto_shard_policy=1,
        output_types=[tf.int64],
        output_shapes=[[]],
    )
    mine = tf.data.experimental.from_variant(sharded, tf.TensorSpec([], tf.int64))
    shards.append([int(number) for number in mine])
print("as it should be:" if shards == [[1, 2], [3, 4]] else "wrong:", "the workers read", shards)
