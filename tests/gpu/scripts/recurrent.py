"""An LSTM of cuDNN's that predicts the next value of noisy waves."""

import torch
from torch import nn

torch.manual_seed(6)
waves = torch.sin(torch.linspace(0, 60, 3000)[None] * torch.rand(64, 1) + torch.rand(64, 1)) + 0.1 * torch.randn(
    64, 3000
)
waves = waves.cuda()


class Forecast(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(1, 64, num_layers=2, dropout=0.1, batch_first=True)
        self.last = nn.Linear(64, 1)

    def forward(self, x):
        return self.last(self.lstm(x)[0])


model = Forecast().cuda()
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
for _step in range(30):
    start = torch.randint(0, 2800, ()).item()
    part = waves[:, start : start + 129, None]
    loss = (model(part[:, :-1]) - part[:, 1:]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss", loss.item())
torch.save(model.state_dict(), "lstm.pt")
