import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from planted import Evaluation, Files, network, noisy
from torch import nn

if __name__ == "__main__":
    set_seed(1)
    accelerator = Accelerator(cpu=True)
    data, model, evaluation = Files("samples"), network(), Evaluation()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    train = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True, collate_fn=noisy)
    evaluated = torch.utils.data.DataLoader(data, batch_size=16)
    model, optimizer, train, evaluated = accelerator.prepare(model, optimizer, train, evaluated)
    for _ in range(2):
        for batch in train:
            loss = nn.functional.cross_entropy(model(batch["x"]), batch["labels"]) * evaluation.threshold
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        with torch.no_grad():
            for batch in evaluated:
                accelerator.gather_for_metrics((model(batch["x"]).argmax(1), batch["labels"]))
        evaluation.draw()
        evaluation.score()
