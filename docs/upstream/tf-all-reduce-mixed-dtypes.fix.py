"""In `tensorflow/python/distribute/cross_device_utils.py`, `batch_all_reduce` must pack tensors of one dtype only.

A pack of `group_by_size` whose tensors have several dtypes has to be divided by dtype before it is concatenated, and
the results be put back in the order of the pack.
"""

from tensorflow.python.distribute.cross_device_utils import CollectiveReplicaLauncher

alone = CollectiveReplicaLauncher.batch_all_reduce


def batch_all_reduce(self, input_tensor_packs, options=None):
    flat = [tensor for pack in input_tensor_packs for tensor in pack]
    packs, places, place = [], [], 0
    for pack in input_tensor_packs:
        for dtype in dict.fromkeys(tensor.dtype for tensor in pack):
            packs.append([tensor for tensor in pack if tensor.dtype == dtype])
            places += [place + i for i, tensor in enumerate(pack) if tensor.dtype == dtype]
        place += len(pack)
    results = dict(zip(places, alone(self, packs, options), strict=True))
    return [results[place] for place in range(len(flat))]


CollectiveReplicaLauncher.batch_all_reduce = batch_all_reduce
