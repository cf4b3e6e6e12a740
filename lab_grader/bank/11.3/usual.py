"""Exercise 11.3, the usual way."""


def join(spans):
    """Make one of spans that overlap or touch."""
    joined = []
    for start, end in sorted(spans):
        touches = joined and start <= joined[-1][1]
        if touches:
            before, until = joined.pop()
            start, end = before, max(until, end)
        joined.append((start, end))
    return joined


def corrupt_spans(tokens, spans, sentinels):
    gaps = join(spans)
    names = list(sentinels)
    inputs, targets = [], []
    at = 0
    for number, (start, end) in enumerate(gaps):
        name = names[number]
        gone = tokens[start:end]
        kept = tokens[at:start]
        inputs += kept
        inputs.append(name)
        targets.append(name)
        targets += gone
        at = end
    inputs += tokens[at:]
    last = names[len(gaps)]
    targets.append(last)
    return inputs, targets
