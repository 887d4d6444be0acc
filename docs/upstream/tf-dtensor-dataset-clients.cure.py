"""A client that batches by itself takes its own part, and packs it."""

import multiprocessing
import os
import socket


def work(jobs, mine):
    os.environ |= {"DTENSOR_JOBS": jobs, "DTENSOR_CLIENT_ID": str(mine)}
    import tensorflow as tf
    from tensorflow.experimental import dtensor

    dtensor.initialize_accelerator_system("CPU", num_logical_cpu_devices=1)
    mesh = dtensor.create_distributed_mesh([("batch", 2)], device_type="CPU")
    layout = dtensor.Layout(["batch"], mesh)
    numbers = tf.data.Dataset.range(8).batch(4)
    own = next(iter(numbers.map(lambda batch: batch[2 * mine : 2 * mine + 2])))
    batch = dtensor.unpack(dtensor.pack([own], layout))[0].numpy().tolist()
    right = batch == [0, 1] if mine == 0 else batch == [2, 3]
    print("as it should be:" if right else "wrong:", f"client {mine} has {batch} of the batch [0, 1, 2, 3]", flush=True)
    dtensor.barrier(mesh)
    os._exit(0)


if __name__ == "__main__":
    opened = [socket.create_server(("localhost", 0)) for _ in range(2)]
    jobs = ",".join(f"localhost:{server.getsockname()[1]}" for server in opened)
    del opened
    for mine in range(2):
        multiprocessing.Process(target=work, args=(jobs, mine)).start()
