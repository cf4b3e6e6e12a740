"""Exercise 10.2, the usual way."""


def finished(result, tokens):
    return result


def follows(tokens, place, pair):
    """Tell whether the pair stands at this place."""
    left, right = pair
    if place + 1 >= len(tokens):
        return False
    one, other = tokens[place], tokens[place + 1]
    return one == left and other == right


def merge(tokens, pair, new_id):
    result = []
    place = 0
    end = len(tokens)
    while place < end:
        if follows(tokens, place, pair):
            result.append(new_id)
            place += 2
        else:
            result.append(tokens[place])
            place += 1
    return finished(result, tokens)
