#!/usr/bin/env python3
"""Checks the receipt of a job: curl -s http://127.0.0.1:4010/v1/jobs/ID | python3 verify_receipt.py ID [key of the worker]

It needs Debian's python3-cryptography; see docs/receipts.md. It exits with 0 if the receipt is valid, with 1 if not, and with 2 if
it got no job or no id."""
import base64, hashlib, json, re, sys
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
Y8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826  # of a point of order 8
SMALL_ORDER = {0, 1, P - 1, Y8, P - Y8}  # The y of the eight points of small order.


def number(value):
    """A number as ECMAScript writes it; its integers above 2^53 are rounded."""
    value = float(value)
    if value == 0:
        return "0"
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) if whole != "0" else int(exponent or 0) - (len(fraction) - len(digits))
    digits = digits.rstrip("0")
    if 0 < point <= 21:
        text = digits.ljust(point, "0") if len(digits) <= point else digits[:point] + "." + digits[point:]
    elif -6 < point <= 0:
        text = "0." + "0" * -point + digits
    else:
        text = digits[0] + ("." + digits[1:] if len(digits) > 1 else "") + "e" + format(point - 1, "+d")
    return "-" + text if value < 0 else text


def string(value):
    """A string as JSON.stringify writes it: non-ASCII raw, but half of a surrogate pair as an escape."""
    text = json.dumps(value, ensure_ascii=False)
    return re.sub("[\ud800-\udfff]", lambda half: "\\u%04x" % ord(half.group()), text)


def stringify(value):
    """The text of ECMAScript's JSON.stringify."""
    if isinstance(value, dict):
        is_index = lambda name: re.fullmatch("0|[1-9][0-9]{0,9}", name) and int(name) < 2**32 - 1
        names = sorted(filter(is_index, value), key=int) + [name for name in value if not is_index(name)]
        return "{" + ",".join(string(name) + ":" + stringify(value[name]) for name in names) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(stringify, value)) + "]"
    if isinstance(value, str):
        return string(value)
    return {None: "null", True: "true", False: "false"}[value] if value is None or isinstance(value, bool) else number(value)


def key_of(text):
    """The key, if it is well-formed and not of small order."""
    if not re.fullmatch("[0-9a-fA-F]{64}", text):
        raise ValueError("the key is not 64 hex digits")
    y = int.from_bytes(bytes.fromhex(text), "little") % 2**255
    if y >= P or y % P in SMALL_ORDER:
        raise ValueError("the key is not canonical, or of small order")
    return Ed25519PublicKey.from_public_bytes(bytes.fromhex(text))


def verify(job, job_id, worker=None):
    """Raises ValueError if the receipt of the job is not valid for this job, this result and, if it is given, this worker."""
    job = job["job"] if "job" in job else job  # The 201 of a commit with `Prefer: wait` has the job beside its id.
    receipt, result = job["receipt"], job["result"]
    if receipt is None:
        raise ValueError("there is no receipt")
    if receipt["job_id"] != job_id:
        raise ValueError("the receipt belongs to another job")
    if worker is not None and receipt["provider_pubkey"].lower() != worker.lower():
        raise ValueError("another worker has signed the receipt")
    outputs = [result, result["output"]] if list(result) == ["output"] else [result]
    hashes = [hashlib.sha256(stringify(output).encode()).hexdigest() for output in outputs]
    if receipt["output_hash"].removeprefix("sha256:") not in hashes:
        raise ValueError("the receipt is for another result")
    fields = {name: receipt[name] for name in ("job_id", "provider_pubkey", "output_hash", "completed_at")}
    signature = base64.b64decode(receipt["signature"], validate=True)
    if len(signature) != 64 or int.from_bytes(signature[32:], "little") >= ORDER:
        raise ValueError("the signature is malformed")
    try:  # The worker signed payment_ref as null; the coordinator fills it in.
        key_of(receipt["provider_pubkey"]).verify(signature, stringify({**fields, "payment_ref": None}).encode())
    except InvalidSignature:
        raise ValueError("the signature is not that of the worker's key") from None


if __name__ == "__main__":
    job = "" if sys.stdin.isatty() else sys.stdin.read()
    if len(sys.argv) not in (2, 3) or not job.strip():
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    try:
        verify(json.loads(job), *sys.argv[1:])
    except (ValueError, KeyError, TypeError) as error:
        sys.exit(f"NOT valid: {error}")
    print("valid")
