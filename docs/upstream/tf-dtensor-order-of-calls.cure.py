"""Clients that call all functions in the same order get their own numbers."""

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
    x = dtensor.pack([tf.fill([128], mine + 1.0)], layout)
    functions = {"sum": tf.function(tf.reduce_sum), "max": tf.function(tf.reduce_max)}
    found = {name: float(functions[name](x)) for name in sorted(functions)}
    right = found == {"sum": 384.0, "max": 2.0}
    print("as it should be:" if right else "wrong:", f"client {mine} has {found}, of 128 ones and 128 twos", flush=True)
    os._exit(0)


if __name__ == "__main__":
    opened = [socket.create_server(("localhost", 0)) for _ in range(2)]
    jobs = ",".join(f"localhost:{server.getsockname()[1]}" for server in opened)
    del opened
    for mine in range(2):
        multiprocessing.Process(target=work, args=(jobs, mine)).start()
