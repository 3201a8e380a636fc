"""Room 2: any network becomes a log density over its stochastic parameters."""

from partbayes.model.adapters import as_network, from_equinox, from_function, from_linen, from_nnx
from partbayes.model.anchored import Anchored, anchored, slope_of_all
from partbayes.model.bnn import Model, partial_bnn, with_more_beside_psi
from partbayes.model.likelihoods import Categorical, Gaussian, Likelihood, categorical, gaussian
from partbayes.model.networks import Network, mlp
from partbayes.model.partition import Partition, combine, partition, paths, select
from partbayes.model.priors import Prior, normal_prior
from partbayes.model.target import Target, log_batch_likelihood, log_target
from partbayes.model.tempered import tempered

__all__ = [
    "Anchored",
    "Categorical",
    "Gaussian",
    "Likelihood",
    "Model",
    "Network",
    "Partition",
    "Prior",
    "Target",
    "anchored",
    "as_network",
    "categorical",
    "combine",
    "from_equinox",
    "from_function",
    "from_linen",
    "from_nnx",
    "gaussian",
    "log_batch_likelihood",
    "log_target",
    "mlp",
    "normal_prior",
    "partial_bnn",
    "partition",
    "paths",
    "select",
    "slope_of_all",
    "tempered",
    "with_more_beside_psi",
]
