"""All attacks by name, and attacks made of others."""

from __future__ import annotations

from dataclasses import replace

from cobblestone.credit_lab.attacks import forging, identities, inflating, refusing, rings
from cobblestone.credit_lab.attacks.acts import Act, Attack, Seen
from cobblestone.credit_lab.attacks.searched import PREFIX, searched
from cobblestone.domain.errors import ConfigError

#: The published attacks.
ATTACKS: dict[str, Attack] = {
    attack.name: attack
    for family in (inflating, identities, refusing, rings, forging)
    for attack in family.ATTACKS
}


def both(one: Attack, other: Attack) -> Attack:
    """Return an attack that does what two do, each with its own strength."""

    def report(seen: Seen, act: Act, strength: float) -> None:
        one.report(seen, act, one.strength)
        other.report(seen, act, other.strength)

    def refuse(seen: Seen, strength: float) -> int:
        return one.refuse(seen, one.strength) or other.refuse(seen, other.strength)

    def renew(seen: Seen, strength: float) -> int:
        return one.renew(seen, one.strength) or other.renew(seen, other.strength)

    larger = {name: max(getattr(one, name), getattr(other, name)) for name in ("share", "arrives", "device")}
    either = {name: getattr(one, name) or getattr(other, name) for name in ("ring", "meets", "lasting")}
    return replace(
        one,
        name=f"{one.name}+{other.name}",
        about=f"{one.about}; {other.about}",
        report=report,
        refuse=refuse,
        renew=renew,
        quorums=tuple(each for each in one.quorums if each in other.quorums),
        world=other.world if one.world == "normal" else one.world,
        **larger,
        **either,
    )


def find_attack(name: str) -> Attack:
    """Return an attack by name; ``NAME=STRENGTH`` changes its strength, ``NAME+NAME`` does both, ``search:`` and numbers
    is what an optimiser found.

    Raises:
        ConfigError: there is none of that name, or the strength is not a number.
    """
    if name.startswith(PREFIX):
        try:
            return searched([float(each) for each in name.removeprefix(PREFIX).split(",")])
        except ValueError:
            raise ConfigError(
                f"attack {name!r}: after {PREFIX} come numbers, with commas between them"
            ) from None
    first, _, rest = name.partition("+")
    if rest:
        return replace(both(find_attack(first), find_attack(rest)), name=name)
    plain, _, strength = name.partition("=")
    if plain not in ATTACKS:
        raise ConfigError(f"attack {plain!r}: no such attack; known are {', '.join(ATTACKS)}")
    if not strength:
        return ATTACKS[plain]
    try:
        return replace(ATTACKS[plain], name=name, strength=float(strength))
    except ValueError:
        raise ConfigError(f"attack {name!r}: {strength!r} is not a number") from None
