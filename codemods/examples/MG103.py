# %% told in setup
import torch.distributed as dist

if "RANK" in os.environ:
    dist.init_process_group("nccl")

# %% left alone in setup
print(os.environ.get("RANK"))
