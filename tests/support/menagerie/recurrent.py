"""Recurrent networks, as modules over a sequence and as cells in a loop."""

from functools import partial

import torch
from torch import Tensor, nn

from .architecture import architecture
from .inputs import inputs, normal

recurrent = partial(architecture, family="recurrent", example=inputs(normal(2, 6, 5)))


class Recurrent(nn.Module):
    """A recurrent module read at every step by a linear head."""

    def __init__(self, recurrence: nn.RNNBase) -> None:
        super().__init__()
        self.recurrence = recurrence
        width = recurrence.proj_size or recurrence.hidden_size
        self.head = nn.Linear(width * (1 + recurrence.bidirectional), 3)

    def forward(self, x: Tensor) -> Tensor:  # [B, N, 5] -> [B, N, 3]
        return self.head(self.recurrence(x)[0])


recurrent("rnn-tanh")(lambda: Recurrent(nn.RNN(5, 8, batch_first=True)))
recurrent("rnn-relu-bidirectional")(
    lambda: Recurrent(nn.RNN(5, 8, 2, nonlinearity="relu", bidirectional=True, batch_first=True))
)
recurrent("lstm")(lambda: Recurrent(nn.LSTM(5, 8, batch_first=True)))
recurrent("lstm-multi-layer")(lambda: Recurrent(nn.LSTM(5, 8, num_layers=3, batch_first=True)))
recurrent("lstm-bidirectional")(
    lambda: Recurrent(nn.LSTM(5, 8, num_layers=2, bidirectional=True, batch_first=True))
)
recurrent("lstm-projected")(lambda: Recurrent(nn.LSTM(5, 8, num_layers=2, proj_size=6, batch_first=True)))
recurrent("lstm-sequence-first-without-bias", example=inputs(normal(6, 2, 5)))(
    lambda: Recurrent(nn.LSTM(5, 8, bias=False))
)
recurrent("gru")(lambda: Recurrent(nn.GRU(5, 8, batch_first=True)))
recurrent("gru-bidirectional")(
    lambda: Recurrent(nn.GRU(5, 8, num_layers=2, bidirectional=True, batch_first=True))
)


@recurrent("lstm-learned-initial-state")
class InitialState(nn.Module):
    """An LSTM that starts from parameters and answers with its last states."""

    def __init__(self, hidden: int = 8) -> None:
        super().__init__()
        self.hidden = nn.Parameter(torch.zeros(1, 1, hidden))
        self.cell = nn.Parameter(torch.zeros(1, 1, hidden))
        self.lstm = nn.LSTM(5, hidden, batch_first=True)
        self.head = nn.Linear(2 * hidden, 3)

    def forward(self, x: Tensor) -> Tensor:  # [B, N, 5] -> [B, 3]
        start = (self.hidden.repeat(1, len(x), 1), self.cell.repeat(1, len(x), 1))
        _, (hidden, cell) = self.lstm(x, start)
        return self.head(torch.cat([hidden[-1], cell[-1]], dim=-1))


@recurrent("lstm-cell")
class LSTMLoop(nn.Module):
    """Two LSTM cells stacked and unrolled in Python."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.LSTMCell(5, 8)
        self.second = nn.LSTMCell(8, 7)
        self.head = nn.Linear(7, 3)

    def forward(self, x: Tensor) -> Tensor:  # [B, N, 5] -> [B, N, 3]
        lower, upper, read = None, None, []
        for step in x.unbind(1):
            lower = self.first(step, lower)
            upper = self.second(lower[0], upper)
            read.append(self.head(upper[0]))
        return torch.stack(read, dim=1)


class CellLoop(nn.Module):
    """A GRU or RNN cell unrolled in Python and read at its last step."""

    def __init__(self, cell: type[nn.RNNCellBase]) -> None:
        super().__init__()
        self.cell = cell(5, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:  # [B, N, 5] -> [B, 3]
        state = x.new_zeros(len(x), self.cell.hidden_size)
        for index in range(x.shape[1]):
            state = self.cell(x[:, index], state)
        return self.head(state)


recurrent("gru-cell")(partial(CellLoop, nn.GRUCell))
recurrent("rnn-cell")(partial(CellLoop, nn.RNNCell))


@recurrent("minimal-gated-unit")
class MinimalGatedUnit(nn.Module):
    """A gated recurrence in plain tensor operations, https://arxiv.org/abs/1603.09420."""

    def __init__(self, hidden: int = 8) -> None:
        super().__init__()
        self.forget = nn.Linear(5 + hidden, hidden)
        self.candidate = nn.Linear(5 + hidden, hidden)
        self.head = nn.Linear(hidden, 3)

    def forward(self, x: Tensor) -> Tensor:  # [B, N, 5] -> [B, 3]
        state = torch.zeros(len(x), self.head.in_features, dtype=x.dtype, device=x.device)
        for step in torch.unbind(x, dim=1):
            forget = self.forget(torch.cat([step, state], dim=-1)).sigmoid()
            candidate = self.candidate(torch.cat([step, forget * state], dim=-1)).tanh()
            state = (1 - forget) * state + forget * candidate
        return self.head(state)


@recurrent("diagonal-state-space")
class StateSpace(nn.Module):
    """A linear recurrence with a decay per channel and state, as in S4D and Mamba."""

    def __init__(self, width: int = 7, states: int = 4) -> None:
        super().__init__()
        self.embed = nn.Linear(5, width)
        self.decay = nn.Parameter(torch.zeros(width, states))
        self.read_in = nn.Parameter(torch.zeros(width, states))
        self.read_out = nn.Parameter(torch.zeros(width, states))
        self.head = nn.Linear(width, 3)

    def forward(self, x: Tensor) -> Tensor:  # [B, N, 5] -> [B, N, 3]
        x = self.embed(x)
        state = x.new_zeros(len(x), *self.decay.shape)
        outputs = []
        for step in x.unbind(1):
            state = state * torch.exp(-self.decay.exp()) + step[..., None] * self.read_in
            outputs.append((state * self.read_out).sum(-1))
        return self.head(torch.stack(outputs, dim=1).relu() + x)
