"""A network from MATLAB, and its plan back.

    python examples/matlab_files.py

In MATLAB or Octave:

    observe = {[1 0.3 0.8; 0 1 0.5], [0.9 0.8 0.1; 0.2 0.1 1]};
    agents = {'kitchen', 'hall'};  noise = 0.25;
    public = struct('temperature', [1 0 0]);  private = struct('gait', [0 1 0], 'presence', [0 0 1]);
    prior_covariance = diag([4 1 1]);  prior_mean = [20 0 1];
    save('house.mat', '-v7')

Here SciPy writes that file.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import scipy.io

import veilnet as vn

observe = np.empty((1, 2), dtype=object)  # a row of cells
observe[0, 0] = np.array([[1.0, 0.3, 0.8], [0.0, 1.0, 0.5]])
observe[0, 1] = np.array([[0.9, 0.8, 0.1], [0.2, 0.1, 1.0]])
house = {
    "observe": observe,
    "agents": np.array([["kitchen", "hall"]], dtype=object),
    "noise": 0.25,
    "public": {"temperature": [[1.0, 0.0, 0.0]]},
    "private": {"gait": [[0.0, 1.0, 0.0]], "presence": [[0.0, 0.0, 1.0]]},
    "prior_covariance": np.diag([4.0, 1.0, 1.0]),
    "prior_mean": [[20.0, 0.0, 1.0]],
}
with TemporaryDirectory() as name:
    folder = Path(name)
    scipy.io.savemat(folder / "house.mat", house)
    network = vn.Network.load(folder / "house.mat")
    plan = vn.design(network)
    plan.save(folder / "plan.mat")
    again = vn.Plan.load(folder / "plan.mat")
    seen = scipy.io.loadmat(folder / "plan.mat")  # as MATLAB sees it: compression{1}, noise{1}, grid{1}
same = all(again.sanitizers[agent].same_as(plan.sanitizers[agent]) for agent in plan.sanitizers)
print(network)
print(f"read back the same to the last bit: {same}")
print(
    f"compression{{1}} is {' x '.join(map(str, seen['compression'][0, 0].shape))}: one number of two readings"
)
