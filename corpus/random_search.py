"""Random search over learning rate, width and activation; the winner is trained again for longer."""
import json, os, random, uuid
import torch
import torch.nn as nn
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

random.seed(0)
torch.manual_seed(0)
X, Y = load_digits(return_X_y=True)
xtr, xva, ytr, yva = train_test_split(X / 16.0, Y, test_size=0.3, random_state=0)
xtr, xva = torch.tensor(xtr, dtype=torch.float32), torch.tensor(xva, dtype=torch.float32)
ytr, yva = torch.tensor(ytr), torch.tensor(yva)

SPACE = {
    'lr': lambda: 10 ** random.uniform(-3.5, -1.5),
    'width': lambda: random.choice([16, 32, 64, 128]),
    'act': lambda: random.choice(['ReLU', 'Tanh', 'GELU']),
    'dropout': lambda: round(random.uniform(0, 0.5), 2),
}


def build(c):
    return nn.Sequential(nn.Linear(64, c['width']), getattr(nn, c['act'])(), nn.Dropout(c['dropout']), nn.Linear(c['width'], 10))


def run(c, epochs):
    model = build(c)
    opt = torch.optim.Adam(model.parameters(), lr=c['lr'])
    for _ in range(epochs):
        model.train()
        for idx in torch.randperm(len(xtr)).split(128):
            opt.zero_grad()
            nn.functional.cross_entropy(model(xtr[idx]), ytr[idx]).backward()
            opt.step()
    model.eval()
    with torch.no_grad():
        out = model(xva)
    return model, nn.functional.cross_entropy(out, yva).item(), (out.argmax(1) == yva).float().mean().item()


class Trial:
    def __init__(self):
        self.id = uuid.uuid4().hex[:8]
        self.config = {k: f() for k, f in SPACE.items()}

    def evaluate(self, epochs=2):
        torch.manual_seed(int(self.id, 16))
        _, self.loss, self.acc = run(self.config, epochs)
        return self.loss


os.makedirs('search', exist_ok=True)
trials = []
for n in range(12):
    t = Trial()
    t.evaluate()
    trials.append(t)
    print(f'trial {n:2d} loss {t.loss:.4f} acc {t.acc:.4f} ' + ' '.join(f'{k}={v}' for k, v in t.config.items()))

best = min(trials, key=lambda t: t.loss)
print('best:', best.config)
torch.manual_seed(0)
model, loss, acc = run(best.config, 8)
print(f'final loss {loss:.6f} acc {acc:.4f}')
json.dump({'config': best.config, 'loss': loss, 'acc': acc}, open('search/best.json', 'w'), indent=1)
torch.save(model.state_dict(), 'search/best.pt')
