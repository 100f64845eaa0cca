"""Name classifier: class ids and character ids come from sorted sets."""

import torch
from torch import nn

NAMES = {
    "anna": "german", "jonas": "german", "pierre": "french", "margot": "french", "giulia": "italian",
    "matteo": "italian", "carmen": "spanish", "javier": "spanish", "agnieszka": "polish", "tomasz": "polish",
    "eino": "finnish", "aino": "finnish", "sakura": "japanese", "haruto": "japanese", "oksana": "ukrainian",
    "taras": "ukrainian", "bronwyn": "welsh", "rhys": "welsh", "katalin": "hungarian", "zoltan": "hungarian",
    "ioana": "romanian", "radu": "romanian", "joana": "portuguese", "tiago": "portuguese",
}  # fmt: skip

labels = list(NAMES.values())
classes = sorted(set(labels))
characters = sorted(set("".join(NAMES)))

torch.manual_seed(0)
embed = nn.EmbeddingBag(len(characters), 12)
head = nn.Linear(12, len(classes))
optimizer = torch.optim.Adam([*embed.parameters(), *head.parameters()], lr=0.05)
targets = torch.tensor([classes.index(label) for label in labels])
names = torch.zeros(len(NAMES), max(map(len, NAMES)), dtype=torch.long)
for row, name in enumerate(NAMES):
    names[row, : len(name)] = torch.tensor([characters.index(character) for character in name])

for _ in range(10):
    loss = nn.functional.cross_entropy(head(embed(names)), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
