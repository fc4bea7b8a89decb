#!/usr/bin/env python3
"""Writes fingerprint.txt: frames and their fingerprints.

The fingerprints are computed from the fields that a frame is built of, by the definition in
src/fingerprint.rs. The frame is not parsed, so this is independent of the Rust and the C code.
"""
import struct

MAC = bytes.fromhex("020000000002" "020000000001")
V4_SRC, V4_DST = bytes([192, 0, 2, 10]), bytes([198, 51, 100, 20])
V6_SRC = bytes.fromhex("20010db8000100000000000000000010")
V6_DST = bytes.fromhex("20010db8000200000000000000000020")
TCP, UDP, ICMP, GRE, ESP, AH, ICMP6, NONE = 6, 17, 1, 47, 50, 51, 58, 59
HOP, ROUTING, FRAGMENT, DESTINATION = 0, 43, 44, 60


# The key of all vectors.
KEY = 0x0706050403020100, 0x0F0E0D0C0B0A0908
IDENTIFIED, PLAIN_TCP, PLAIN_UDP, OTHER = 1, 2, 3, 4


def siphash(key, words):
    """Returns SipHash-1-3 of a message of whole words."""
    def rotate(x, n):
        return (x << n | x >> 64 - n) % 2**64

    def rounds(n):
        nonlocal a, b, c, d
        for _ in range(n):
            a = (a + b) % 2**64
            b = rotate(b, 13) ^ a
            a = rotate(a, 32)
            c = (c + d) % 2**64
            d = rotate(d, 16) ^ c
            a = (a + d) % 2**64
            d = rotate(d, 21) ^ a
            c = (c + b) % 2**64
            b = rotate(b, 17) ^ c
            c = rotate(c, 32)

    a, b, c, d = (int.from_bytes(b"somepseudorandomlygeneratedbytes"[i:i + 8], "big") for i in range(0, 32, 8))
    a, b, c, d = a ^ key[0], b ^ key[1], c ^ key[0], d ^ key[1]
    for word in words + [8 * len(words) % 256 << 56]:
        d ^= word
        rounds(1)
        a ^= word
    c ^= 0xFF
    rounds(3)
    return a ^ b ^ c ^ d


def fingerprint(proto, row, *parts):
    message = be(1, proto) + be(1, row) + b"".join(parts)
    message += bytes(-len(message) % 8)
    return siphash(KEY, [w for w, in struct.iter_unpack(">Q", message)]) % 2**32


def be(size, value):
    return (value % 256**size).to_bytes(size, "big")


def checksum(data):
    s = sum(struct.unpack(f">{len(data) // 2}H", data))
    while s >> 16:
        s = (s & 0xFFFF) + (s >> 16)
    return ~s & 0xFFFF


def ethernet(ethertype, payload, tags=()):
    tags = b"".join(be(2, kind) + be(2, vlan) for kind, vlan in tags)
    return MAC + tags + be(2, ethertype) + payload


def ipv4(proto, payload, id, df=True, offset=0, more=False, options=b"", tos=0, ttl=64, total=None):
    ihl = 5 + len(options) // 4
    total = 4 * ihl + len(payload) if total is None else total
    flags = (0x4000 if df else 0) | (0x2000 if more else 0) | offset
    head = struct.pack(">BBHHHBBH", 4 << 4 | ihl, tos, total, id, flags, ttl, proto, 0)
    head += V4_SRC + V4_DST + options
    return head[:10] + be(2, checksum(head)) + head[12:] + payload


def ipv6(proto, payload, extensions=(), tclass=0, flow=0x12345, hops=64, length=None):
    chain, kinds = b"", [kind for kind, _ in extensions] + [proto]
    for (_, body), following in zip(extensions, kinds[1:]):
        chain += be(1, following) + body
    length = len(chain + payload) if length is None else length
    head = be(4, 6 << 28 | tclass << 20 | flow) + be(2, length) + bytes([kinds[0], hops])
    return head + V6_SRC + V6_DST + chain + payload


def options_header(kind, size):
    """Returns an extension header of `size` bytes whose content is padding."""
    return kind, be(1, size // 8 - 1) + b"\x01" + be(1, size - 4) + bytes(size - 4)


def authentication_header(icv):
    return AH, be(1, (12 + icv) // 4 - 2) + bytes(2) + be(4, 0x1001) + be(4, 7) + b"\xaa" * icv


def fragment_header(id, offset, more):
    return FRAGMENT, b"\0" + be(2, offset << 3 | more) + be(4, id)


class Tcp:
    def __init__(self, seq=0x11223344, ack=0x55667788, options=b"", flags=0x10, payload=b"",
                 sport=443, dport=51000, window=502, check=0xBEEF):
        self.seq, self.ack, self.options, self.flags = seq, ack, options, flags
        self.payload, self.ports = payload, be(2, sport) + be(2, dport)
        self.tail = be(2, window) + be(2, check) + be(2, 0)

    def bytes(self):
        head = bytes([(20 + len(self.options)) // 4 << 4, self.flags])
        return self.ports + be(4, self.seq) + be(4, self.ack) + head + self.tail + self.options \
            + self.payload

    def identified(self, id, offset=0, id_size=2):
        return fingerprint(TCP, IDENTIFIED, be(2, offset), be(4, id % 256**id_size), self.ports,
                           be(4, self.seq))

    def plain(self):
        options = b"" if self.flags & 2 else self.options[:24]
        return fingerprint(TCP, PLAIN_TCP, be(2, len(self.payload)), self.ports, be(4, self.seq),
                           be(4, self.ack), options)


class Udp:
    def __init__(self, payload, sport=4433, dport=52000, check=0x1234):
        self.payload, self.ports, self.check = payload, be(2, sport) + be(2, dport), check

    def bytes(self):
        return self.ports + be(2, 8 + len(self.payload)) + be(2, self.check) + self.payload

    def identified(self, id, offset=0, id_size=2):
        return fingerprint(UDP, IDENTIFIED, be(2, offset), be(4, id % 256**id_size), self.ports, be(4, 0))

    def plain(self):
        return fingerprint(UDP, PLAIN_UDP, be(2, len(self.payload)), self.ports, self.payload[:32])


def other(proto, payload):
    return fingerprint(proto, OTHER, be(2, len(payload)), be(4, 0), payload[:64])


def portless(proto, id, offset=0, id_size=2):
    return fingerprint(proto, IDENTIFIED, be(2, offset), be(4, id % 256**id_size), be(8, 0))


def timestamps(value, echo=0x0BADCAFE):
    return b"\x01\x01\x08\x0a" + be(4, value) + be(4, echo)


def sack(*blocks):
    return b"\x01\x01\x05" + be(1, 2 + 8 * len(blocks)) \
        + b"".join(be(4, a) + be(4, b) for a, b in blocks)


def syn_options(mss):
    return b"\x02\x04" + be(2, mss) + b"\x04\x02\x08\x0a" + be(4, 99) + be(4, 0) + b"\x01\x03\x03\x07"


def bytes_from(start, count):
    return bytes((start + 7 * i) % 256 for i in range(count))


vectors = []


def heading(text):
    vectors.append(f"\n# {text}")


def vector(name, frame, expected, segment=""):
    expected = "none" if expected is None else f"{expected:08x}"
    vectors.append(f"{name} {frame.hex()} {expected} {segment}".rstrip())


def v4(*args, tags=(), **kwargs):
    return ethernet(0x0800, ipv4(*args, **kwargs), tags)


def v6(*args, tags=(), **kwargs):
    return ethernet(0x86DD, ipv6(*args, **kwargs), tags)


heading("IPv4 with an ID")
t = Tcp(options=timestamps(1000), payload=bytes_from(1, 20))
vector("ipv4-tcp", v4(TCP, t.bytes(), 0x4321), t.identified(0x4321))
vector("ipv4-tcp-retransmitted", v4(TCP, t.bytes(), 0x4399), t.identified(0x4399))
vector("ipv4-tcp-next", v4(TCP, Tcp(seq=t.seq + 20).bytes(), 0x4322), Tcp(seq=t.seq + 20).identified(0x4322))
vector("ipv4-tcp-ttl-ecn-dscp-changed", v4(TCP, t.bytes(), 0x4321, tos=0xBB, ttl=50), t.identified(0x4321))
vector("ipv4-tcp-checksum-and-window-changed",
       v4(TCP, Tcp(options=timestamps(1000), payload=bytes_from(1, 20), check=0, window=9).bytes(), 0x4321),
       t.identified(0x4321))
vector("ipv4-tcp-ip-options", v4(TCP, t.bytes(), 0x4321, options=b"\x94\x04\0\0"), t.identified(0x4321))
u = Udp(bytes_from(3, 40))
vector("ipv4-udp", v4(UDP, u.bytes(), 7, df=False), u.identified(7))
echo = bytes.fromhex("0800f7ff00010002") + bytes_from(5, 56)
vector("ipv4-icmp", v4(ICMP, echo, 0xFFFF, df=False), portless(ICMP, 0xFFFF))
vector("ipv4-sctp", v4(132, u.bytes(), 9), fingerprint(132, IDENTIFIED, be(2, 0), be(4, 9), u.ports, be(4, 0)))
vector("ipv4-udp-one-byte-of-header", v4(UDP, b"\x11", 7), portless(UDP, 7))

heading("IPv4 with ID 0, not a fragment")
syn_ack = Tcp(flags=0x12, options=syn_options(1460))
vector("ipv4-syn-ack", v4(TCP, syn_ack.bytes(), 0), syn_ack.plain())
vector("ipv4-syn-ack-clamped-mss", v4(TCP, Tcp(flags=0x12, options=syn_options(1400)).bytes(), 0), syn_ack.plain())
vector("ipv4-tcp-no-id", v4(TCP, t.bytes(), 0), t.plain())
vector("ipv4-tcp-no-id-no-options", v4(TCP, Tcp().bytes(), 0), Tcp().plain())
vector("ipv4-tcp-no-id-padded", v4(TCP, Tcp().bytes(), 0) + bytes(6), Tcp().plain())
quic = Udp(b"\x4a" + bytes_from(9, 20) + bytes_from(77, 80))
vector("ipv4-quic-long-connection-id", v4(UDP, quic.bytes(), 0), quic.plain())
quic_next = Udp(b"\x4a" + bytes_from(9, 20) + bytes_from(78, 80))
vector("ipv4-quic-next-packet", v4(UDP, quic_next.bytes(), 0), quic_next.plain())
vector("ipv4-udp-no-id-short", v4(UDP, Udp(b"\x01\x02\x03").bytes(), 0), Udp(b"\x01\x02\x03").plain())
vector("ipv4-udp-no-id-padded", v4(UDP, Udp(b"\x01\x02\x03").bytes(), 0) + b"\xff" * 15, Udp(b"\x01\x02\x03").plain())
vector("ipv4-udp-no-id-empty", v4(UDP, Udp(b"").bytes(), 0), Udp(b"").plain())
vector("ipv4-icmp-no-id", v4(ICMP, echo, 0), other(ICMP, echo))
esp = be(4, 0xC0FFEE) + be(4, 17) + bytes_from(11, 72)
vector("ipv4-esp-no-id", v4(ESP, esp, 0), other(ESP, esp))
vector("ipv4-no-id-no-payload", v4(ICMP, b"", 0), None)

heading("IPv6")
vector("ipv6-tcp", v6(TCP, t.bytes()), t.plain())
again = Tcp(options=timestamps(1001), payload=bytes_from(1, 20))
vector("ipv6-tcp-retransmitted", v6(TCP, again.bytes()), again.plain())
vector("ipv6-tcp-class-flow-hops-changed", v6(TCP, t.bytes(), tclass=0xFF, flow=1, hops=3), t.plain())
for n in 1, 2:
    duplicate = Tcp(options=timestamps(1000) + sack((5000, 5000 + 1448 * n)))
    vector(f"ipv6-tcp-duplicate-ack-{n}", v6(TCP, duplicate.bytes()), duplicate.plain())
full = Tcp(options=timestamps(1000) + sack((5000, 9000), (1000, 2000), (100, 200)))
vector("ipv6-tcp-three-sack-blocks", v6(TCP, full.bytes()), full.plain())
vector("ipv6-syn", v6(TCP, Tcp(flags=2, ack=0, options=syn_options(1440)).bytes()), Tcp(flags=2, ack=0).plain())
vector("ipv6-udp", v6(UDP, quic.bytes()), quic.plain())
vector("ipv6-udp-32-bytes", v6(UDP, Udp(bytes_from(1, 32)).bytes()), Udp(bytes_from(1, 32)).plain())
echo6 = bytes.fromhex("8000abcd00010002") + bytes_from(5, 8)
vector("ipv6-icmp", v6(ICMP6, echo6), other(ICMP6, echo6))
vector("ipv6-esp", v6(ESP, esp), other(ESP, esp))
inner = ipv6(TCP, t.bytes())
vector("ipv6-gre-ipv6-tcp", v6(GRE, b"\0\0\x86\xdd" + inner), other(GRE, b"\0\0\x86\xdd" + inner))
vector("ipv6-no-next-header", v6(NONE, b""), None)

heading("IPv6 extension headers")
chain = [options_header(HOP, 8), options_header(DESTINATION, 16), options_header(ROUTING, 24)]
vector("ipv6-hop-by-hop-tcp", v6(TCP, t.bytes(), chain[:1]), t.plain())
vector("ipv6-three-extensions-udp", v6(UDP, quic.bytes(), chain), quic.plain())
vector("ipv6-authenticated-tcp", v6(TCP, t.bytes(), [authentication_header(12)]), t.plain())
vector("ipv6-six-extensions-tcp", v6(TCP, t.bytes(), [options_header(DESTINATION, 8)] * 6), t.plain())
vector("ipv6-seven-extensions-tcp", v6(TCP, t.bytes(), [options_header(DESTINATION, 8)] * 7), None)
vector("ipv6-136-bytes-of-extensions", v6(TCP, t.bytes(), [options_header(HOP, 136)]), t.plain())
vector("ipv6-144-bytes-of-extensions", v6(TCP, t.bytes(), [options_header(HOP, 144)]), None)
vector("ipv6-extension-past-payload", v6(TCP, b"", chain[2:], length=16), None)

heading("Fragments")
big = Udp(bytes_from(0, 64))
whole = big.bytes()
vector("ipv4-fragment-first", v4(UDP, whole[:32], 0xABCD, df=False, more=True), big.identified(0xABCD))
vector("ipv4-fragment-middle", v4(UDP, whole[32:56], 0xABCD, df=False, offset=4, more=True), portless(UDP, 0xABCD, 4))
vector("ipv4-fragment-last", v4(UDP, whole[56:], 0xABCD, df=False, offset=7), portless(UDP, 0xABCD, 7))
vector("ipv4-fragment-of-id-0", v4(UDP, whole[56:], 0, df=False, offset=7), portless(UDP, 0, 7))
vector("ipv4-fragment-first-tcp", v4(TCP, t.bytes()[:24], 0x4321, df=False, more=True), t.identified(0x4321))
vector("ipv4-fragment-tiny-tcp", v4(TCP, t.bytes()[:8], 0x4321, df=False, more=True), t.identified(0x4321))
v6_id = 0xDEADBEEF
vector("ipv6-fragment-first", v6(UDP, whole[:32], [fragment_header(v6_id, 0, 1)]), big.identified(v6_id, 0, 4))
vector("ipv6-fragment-last", v6(UDP, whole[32:], [fragment_header(v6_id, 4, 0)]), portless(UDP, v6_id, 4, 4))
vector("ipv6-fragment-only", v6(TCP, t.bytes(), [fragment_header(v6_id, 0, 0)]), t.identified(v6_id, 0, 4))
vector("ipv6-fragment-last-of-destination-options",
       v6(DESTINATION, whole[32:], [chain[0], fragment_header(v6_id, 4, 0)]), portless(DESTINATION, v6_id, 4, 4))

heading("VLAN tags")
vector("vlan", v4(TCP, t.bytes(), 0x4321, tags=[(0x8100, 100)]), t.identified(0x4321))
vector("vlan-in-vlan", v6(TCP, t.bytes(), tags=[(0x88A8, 5), (0x8100, 100)]), t.plain())
vector("three-vlan-tags", v4(TCP, t.bytes(), 0x4321, tags=[(0x88A8, 5), (0x8100, 1), (0x8100, 2)]), None)

heading("PPPoE sessions and MPLS labels")


def pppoe(protocol, packet, tags=(), header=b"\x11\x00"):
    return ethernet(0x8864, header + be(2, 0x1234) + be(2, 2 + len(packet)) + be(2, protocol) + packet, tags)


def mpls(count, payload, ethertype=0x8847, tags=()):
    labels = b"".join(be(4, 100 + i << 12 | (i == count - 1) << 8 | 64) for i in range(count))
    return ethernet(ethertype, labels + payload, tags)


ip4, ip6 = ipv4(TCP, t.bytes(), 0x4321), ipv6(TCP, t.bytes())
vector("pppoe-ipv4", pppoe(0x0021, ip4), t.identified(0x4321))
vector("pppoe-ipv6", pppoe(0x0057, ip6), t.plain())
vector("pppoe-in-vlan", pppoe(0x0021, ip4, tags=[(0x8100, 7)]), t.identified(0x4321))
vector("pppoe-ipv4-padded", pppoe(0x0021, ipv4(TCP, Tcp().bytes(), 7)) + bytes(6), Tcp().identified(7))
vector("pppoe-link-control", pppoe(0xC021, b"\x09\x01\x00\x08" + bytes(4)), None)
vector("pppoe-mpls", pppoe(0x0281, be(4, 100 << 12 | 1 << 8 | 64) + ip4), None)
vector("pppoe-discovery", ethernet(0x8863, b"\x11\x09\x00\x00\x00\x00" + bytes(40)), None)
vector("pppoe-discovery-code-in-session", pppoe(0x0021, ip4, header=b"\x11\x09"), None)
vector("pppoe-version-2", pppoe(0x0021, ip4, header=b"\x21\x00"), None)
vector("pppoe-ipv6-called-ipv4", pppoe(0x0021, ip6), None)
vector("mpls-ipv4", mpls(1, ip4), t.identified(0x4321))
vector("mpls-ipv6", mpls(1, ip6, ethertype=0x8848), t.plain())
vector("mpls-four-labels-in-two-vlans", mpls(4, ip6, tags=[(0x88A8, 5), (0x8100, 100)]), t.plain())
vector("mpls-five-labels", mpls(5, ip4), None)
vector("mpls-pseudowire", mpls(2, be(4, 0) + ethernet(0x0800, ip4)), None)
vector("cut-in-pppoe", pppoe(0x0021, ip4)[:21], None)
vector("cut-in-mpls", mpls(2, ip4)[:21], None)
vector("cut-after-mpls", mpls(1, ip4)[:18], None)
vector("macsec", ethernet(0x88E5, bytes(60)), None)
vector("length-instead-of-ethertype", ethernet(39, b"\x42\x42\x03" + bytes(36)), None)

heading("Jumbograms, as Linux writes them for super-packets (BIG TCP), cut after 20 bytes of payload")


def jumbo(length, option=b"\xc2\x04", payload_length=0):
    return v6(TCP, t.bytes(), [(HOP, b"\0" + option + be(4, length))], length=payload_length)


vector("jumbogram", jumbo(70_000), fingerprint(TCP, PLAIN_TCP, be(2, 70_000 - 8 - 32), t.ports, be(4, t.seq),
                                                 be(4, t.ack), t.options))
vector("jumbogram-segment-2", v6(TCP, Tcp(seq=t.seq + 2856, options=t.options, payload=bytes_from(9, 1428)).bytes()),
       Tcp(seq=t.seq + 2856, options=t.options, payload=bytes_from(9, 1428)).plain(), "jumbogram 2 2856 1428")
vector("jumbogram-of-64-kib", jumbo(65_535), None)
vector("jumbogram-without-option", jumbo(70_000, option=b"\x01\x04"), None)
vector("jumbogram-cut-in-option", jumbo(70_000)[:14 + 40 + 7], None)

heading("Segments of super-packets: as they are on the wire, and, after the name of the super-packet,\n"
        "# which segment it is: index, payload offset, payload length")
payload = bytes_from(0, 250)
for name, build, first_id in [("ipv4-super", v4, 0xFFFE), ("ipv6-super", v6, None)]:
    def segment(seq, data, index, build=build, first_id=first_id):
        s = Tcp(seq=seq, options=timestamps(1000), payload=data)
        if first_id is None:
            return build(TCP, s.bytes()), s.plain()
        id = (first_id + index) % 65536
        return build(TCP, s.bytes(), id), s.identified(id) if id else s.plain()
    vector(name, *segment(0xFFFFFF80, payload, 0))
    for i in range(3):
        data = payload[100 * i:100 * i + 100]
        vector(f"{name}-segment-{i}", *segment(0xFFFFFF80 + 100 * i, data, i), f"{name} {i} {100 * i} {len(data)}")
vector("udp-super", v4(UDP, Udp(payload).bytes(), 50), Udp(payload).identified(50))
vector("udp-super-segment-1", v4(UDP, Udp(payload[100:200]).bytes(), 51), Udp(payload[100:200]).identified(51),
       "udp-super 1 100 100")
# Without an ID, and with less payload in a segment than is hashed.
vector("udp-short-super", v6(UDP, Udp(payload).bytes()), Udp(payload).plain())
vector("udp-short-super-segment-0", v6(UDP, Udp(payload[:20]).bytes()), Udp(payload[:20]).plain(),
       "udp-short-super 0 0 20")

heading("Cut short or malformed, or not IP")
tcp4, tcp6 = v4(TCP, t.bytes(), 0), v6(TCP, t.bytes())
vector("cut-in-ethernet", tcp4[:13], None)
vector("cut-in-vlan", v4(TCP, t.bytes(), 5, tags=[(0x8100, 1)])[:16], None)
vector("cut-in-ipv4", tcp4[:33], None)
vector("cut-in-ipv6", tcp6[:53], None)
vector("cut-in-extension", v6(TCP, t.bytes(), chain)[:60], None)
vector("cut-in-tcp", tcp4[:14 + 20 + 19], None)
vector("cut-in-tcp-options", tcp4[:14 + 20 + 31], None)
vector("cut-in-tcp-payload", tcp4[:14 + 20 + 32], t.plain())
vector("cut-in-udp-payload", v4(UDP, quic.bytes(), 0)[:14 + 20 + 8 + 31], None)
vector("cut-in-fragment-tcp", v4(TCP, t.bytes()[:24], 1, more=True)[:14 + 20 + 7], None)
vector("ipv4-total-length-short", v4(TCP, t.bytes(), 0, total=39), None)
vector("ipv4-total-length-under-header", v4(TCP, t.bytes(), 1, total=19), None)
vector("ipv4-header-length-4", ethernet(0x0800, b"\x44" + ipv4(TCP, t.bytes(), 1)[1:]), None)
vector("ipv4-called-ipv6", ethernet(0x86DD, ipv4(TCP, t.bytes(), 1)), None)
vector("tcp-data-offset-4", tcp4[:46] + b"\x40" + tcp4[47:], None)
vector("arp", ethernet(0x0806, bytes(28)), None)
vector("lldp", ethernet(0x88CC, bytes(46)), None)

print("# Fingerprint vectors, written by generate.py: name, frame, fingerprint or `none`.")
print("# The key is that of SipHash's own examples: the bytes 0 to 15 as two little-endian numbers.")
print("\n".join(vectors))
