"""pack of what each client has is the whole batch."""

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
    own = tf.range(4) + 4 * mine
    batch = dtensor.pack([own], layout)
    total = int(tf.reduce_sum(batch))
    right = (batch.shape[0], total) == (8, 28)
    print("as it should be:" if right else "wrong:", f"{batch.shape[0]} examples, sum {total}, of 0 to 7", flush=True)
    dtensor.barrier(mesh)
    os._exit(0)


if __name__ == "__main__":
    opened = [socket.create_server(("localhost", 0)) for _ in range(2)]
    jobs = ",".join(f"localhost:{server.getsockname()[1]}" for server in opened)
    del opened
    for mine in range(2):
        multiprocessing.Process(target=work, args=(jobs, mine)).start()
