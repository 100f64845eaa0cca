#!/usr/bin/env python
# coding: utf-8

# # Churn model
# Which customers leave?

# In[1]:


import random
import numpy as np
import pandas as pd
import torch
import torch.nn as nn

random.seed(0); np.random.seed(0); torch.manual_seed(0)


# In[2]:


N = 3000
df = pd.DataFrame({
    'customer': [f'C{random.randrange(10**6):06d}' for _ in range(N)],
    'plan': np.random.choice(['basic', 'plus', 'pro'], N),
    'calls': np.random.poisson(3, N),
    'months': np.random.randint(1, 60, N),
    'spend': np.random.gamma(2.0, 20.0, N),
})
logit = 0.5 * df.calls - 0.05 * df.months - 0.01 * df.spend + (df.plan == 'basic') * 0.7 - 0.6
df['churn'] = (np.random.rand(N) < 1 / (1 + np.exp(-logit))).astype(int)
print(df.head())


# In[5]:


# same customer always in the same part, also when new data arrives
df['part'] = df.customer.map(lambda c: 'test' if hash(c) % 5 == 0 else 'train')
print(df.part.value_counts().sort_index())


# In[7]:


features = pd.get_dummies(df[['plan', 'calls', 'months', 'spend']], dtype=float)
features = (features - features.mean()) / features.std()
is_test = (df.part == 'test').values
X = torch.tensor(features.values, dtype=torch.float32)
y = torch.tensor(df.churn.values, dtype=torch.float32)
X_train, y_train = X[~is_test], y[~is_test]
X_test, y_test = X[is_test], y[is_test]
print(X_train.shape, X_test.shape)


# In[8]:


model = nn.Sequential(nn.Linear(X.shape[1], 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 1))
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
crit = nn.BCEWithLogitsLoss()
losses = []


# In[11]:


for epoch in range(15):
    perm = torch.randperm(len(X_train))
    for idx in perm.split(128):
        loss = crit(model(X_train[idx])[:, 0], y_train[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
print('train loss', np.mean(losses[-20:]))


# In[12]:


model.eval()
with torch.no_grad():
    p = torch.sigmoid(model(X_test)[:, 0])
df.loc[is_test, 'score'] = p.numpy()
result = df[is_test].sort_values('score', ascending=False)[['customer', 'score', 'churn']]
print(result.head(10))


# In[14]:


print('test accuracy', ((p > 0.5) == y_test.bool()).float().mean().item())
result.head(100).to_csv('risky_customers.csv', index=False)
