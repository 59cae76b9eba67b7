"""The same with DistributedDataParallel."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
from transformers import BertConfig, BertForSequenceClassification

dist.init_process_group("nccl")
rank, world = dist.get_rank(), dist.get_world_size()
torch.cuda.set_device(rank)
torch.manual_seed(2)
tokens = torch.randint(0, 50, (128, 12))
mask = (torch.rand(128, 12) < 0.9).long()
data = TensorDataset(tokens, mask, torch.randint(0, 2, (128,)))
sampler = DistributedSampler(data, drop_last=True)
loader = DataLoader(data, batch_size=32 // world, sampler=sampler, drop_last=True)
config = BertConfig(
    vocab_size=50,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=16,
    num_labels=2,
)
model = DistributedDataParallel(BertForSequenceClassification(config).cuda(), device_ids=[rank])
model.train()
decayed = [p for n, p in model.named_parameters() if p.dim() > 1]
others = [p for n, p in model.named_parameters() if p.dim() <= 1]
groups = [{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
optimizer = torch.optim.AdamW(groups, lr=1e-3)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 5))
for epoch in range(3):
    sampler.set_epoch(epoch)
    for ids, attention, labels in loader:
        output = model(input_ids=ids.cuda(), attention_mask=attention.cuda(), labels=labels.cuda())
        loss = output.loss.mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
dist.destroy_process_group()
