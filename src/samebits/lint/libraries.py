"""Names of library functions that trainings use: which draw from a global generator, and which seed one."""

from __future__ import annotations

import re
from functools import cache

ALL = "*"
# Function that seeds a global generator → its library.
SEEDS = {
    **dict.fromkeys(["torch.manual_seed", "torch.random.manual_seed", "torch.set_rng_state"], "torch"),
    **dict.fromkeys(["torch.cuda.manual_seed", "torch.cuda.manual_seed_all", "torch.random.set_rng_state"], "torch"),
    **dict.fromkeys(["numpy.random.seed", "numpy.random.set_state"], "numpy"),
    **dict.fromkeys(["random.seed", "random.setstate"], "random"),
}
_HELPERS = re.compile(r"seed|determinis|reproducib|set_rng", re.IGNORECASE)
# Names that look like seeding helpers, but seed no global generator. Those that begin with a dot are methods.
_NO_HELPERS = re.compile(
    r"^(numpy|np|random|torch)\.|^\.(.*\.)?(manual_seed|seed)(_all)?$|initial_seed|SeedSequence|use_deterministic|get_?seed"
    r"|(is|set)_deterministic|make_seed|derive",
    re.IGNORECASE,
)


@cache
def is_seed_helper(name: str) -> bool:
    """Whether a function may seed every generator, as far as its qualified name tells."""
    root, last = name.partition(".")[0], name.rpartition(".")[2]
    # The trainers of transformers seed, with 42 unless told otherwise.
    is_trainer = root in ("transformers", "trl", "sentence_transformers") and last.endswith("Trainer")
    return root == "samebits" or is_trainer or bool(_HELPERS.search(last) and not _NO_HELPERS.search(name))


_NUMPY = """
rand randn randint random random_sample random_integers ranf sample choice shuffle permutation bytes beta binomial
chisquare dirichlet exponential f gamma geometric gumbel hypergeometric laplace logistic lognormal logseries multinomial
multivariate_normal negative_binomial noncentral_chisquare normal pareto poisson power rayleigh standard_cauchy
standard_exponential standard_gamma standard_normal standard_t triangular uniform vonmises wald weibull zipf
"""
_PYTHON = """
random randint randrange choice choices shuffle sample uniform gauss normalvariate betavariate expovariate gammavariate
lognormvariate paretovariate triangular vonmisesvariate weibullvariate getrandbits randbytes
"""
_TORCH = """
rand randn randint randperm normal bernoulli multinomial poisson rand_like randn_like randint_like nn.functional.dropout
nn.init.normal_ nn.init.uniform_ nn.init.xavier_uniform_ nn.init.xavier_normal_
nn.init.kaiming_uniform_ nn.init.kaiming_normal_ nn.init.orthogonal_ nn.init.trunc_normal_
"""
# Modules whose initial parameters are drawn.
_LAYERS = """
Linear Bilinear Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d Embedding EmbeddingBag LSTM GRU RNN
LSTMCell GRUCell RNNCell MultiheadAttention Transformer TransformerEncoderLayer TransformerDecoderLayer
"""
DRAWS = {
    "numpy": [f"numpy.random.{name}" for name in _NUMPY.split()],
    "random": [f"random.{name}" for name in _PYTHON.split()],
    "torch": [f"torch.{name}" for name in _TORCH.split()] + [f"torch.nn.{name}" for name in _LAYERS.split()],
}
GENERATOR_KEYWORDS = {"generator", "random_state", "seed"}
# Function that makes a separate generator → the parameter that takes its seed.
GENERATORS = {
    "numpy.random.default_rng": "seed",
    "numpy.random.RandomState": "seed",
    "random.Random": "x",
    "torch.Generator": "",
}
# Functions that return something new in every run.
ENTROPY = {
    *("time.time", "time.time_ns", "time.perf_counter", "time.monotonic", "datetime.datetime.now", "datetime.now"),
    *("os.getpid", "os.urandom", "uuid.uuid1", "uuid.uuid4", "secrets.randbits", "secrets.randbelow"),
    *("secrets.token_bytes", "random.SystemRandom", "torch.seed", "time.clock"),
}
# Frameworks that may run a script in several processes.
FRAMEWORKS = ("lightning", "pytorch_lightning", "accelerate", "transformers", "ignite", "mmengine", "fastai")

# Function that splits or samples data (SB111) → the library of the generator that it draws from, the package that it
# comes from, the argument that must be True for it to draw; the argument that takes a seed or a generator, the module
# that makes it, and how: `{0}` is the module's name, and `{1}` a number.
OF_TORCH = ("torch", "torch", "", "generator", "torch", "{0}.Generator().manual_seed({1})")
_OF_SKLEARN = ("numpy", "sklearn", "", "random_state", "", "{1}")
# Given a number, they would make the same folds at each call of `split()`.
_FOLDS = ("random_state", "numpy", "{0}.random.RandomState({1})")
SPLITS = {
    "random_split": OF_TORCH,
    "train_test_split": _OF_SKLEARN,
    "KFold": ("numpy", "sklearn", "shuffle", *_FOLDS),
    "StratifiedKFold": ("numpy", "sklearn", "shuffle", *_FOLDS),
    "ShuffleSplit": ("numpy", "sklearn", "", *_FOLDS),
    "resample": _OF_SKLEARN,
}
