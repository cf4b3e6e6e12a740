"""Exercise 12.9, other right ways."""

from __future__ import annotations

from typing import Any

import torch

from lab_transformer.variants import MixtureOfExperts, balance_loss, route


class TokenByToken(MixtureOfExperts):
    def forward(self, x: Any) -> Any:
        logits = self.router(x)
        weights, chosen = route(logits, self.k)
        rows = []
        for b in range(x.shape[0]):
            for t in range(x.shape[1]):
                outputs = [self.experts[int(e)](x[b, t]) for e in chosen[b, t]]
                rows.append(torch.stack(outputs, dim=-1) @ weights[b, t])
        return torch.stack(rows).reshape(x.shape), balance_loss(torch.softmax(logits, -1), chosen)


class ChoiceByChoice(MixtureOfExperts):
    def forward(self, x: Any) -> Any:
        logits = self.router(x)
        weights, chosen = route(logits, self.k)
        output = torch.zeros_like(x)
        for choice in range(self.k):
            for number in chosen[..., choice].unique().tolist():
                mine = chosen[..., choice] == number
                found = self.experts[number](x[mine]) * weights[..., choice][mine].unsqueeze(-1)
                output[mine] = output[mine] + found
        return output, balance_loss(logits.softmax(dim=-1), chosen)


class SortedByExpert(MixtureOfExperts):
    def forward(self, x: Any) -> Any:
        tokens = x.reshape(-1, x.shape[-1])
        logits = tokens @ self.router.weight.T
        weights, chosen = route(logits, self.k)
        order = chosen.flatten().argsort(stable=True)
        counts = torch.bincount(chosen.flatten(), minlength=len(self.experts)).tolist()
        parts = tokens[order // self.k].split(counts)
        done = torch.cat([e(p) for e, p in zip(self.experts, parts, strict=True)])
        back = torch.empty_like(done).index_copy(0, order, done).unflatten(0, (-1, self.k))
        output = torch.einsum("tk,tkd->td", weights, back).view_as(tokens).reshape(x.shape)
        return output, balance_loss(logits.softmax(-1), chosen)


class MaskByMask(MixtureOfExperts):
    def forward(self, x: Any) -> Any:
        logits = self.router(x)
        weights, chosen = route(logits, self.k)
        outputs = []
        for number, expert in enumerate(self.experts):
            mine = (chosen == number).any(dim=-1)
            if not mine.any():
                continue
            share = (weights * (chosen == number)).sum(dim=-1)
            part = torch.zeros_like(x)
            part[mine] = share[mine][:, None] * expert(x[mine])
            outputs.append(part)
        return torch.stack(outputs).sum(dim=0), balance_loss(logits.softmax(-1), chosen)
