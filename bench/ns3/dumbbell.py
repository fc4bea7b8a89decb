"""The dumbbell of README.md in ns-3: prints a line of JSON.

Run by `run`, which also explains the settings; by hand: venv/bin/python dumbbell.py SECONDS
"""

import json
import sys
import time

from ns import ns

FLOWS = 50
RATE = "96Mbps"
DELAY = "25ms"  # each way
SEED = 1

# Per-packet records are kept in C++: a call into Python for each packet would slow ns-3 down.
ns.cppyy.cppdef(
    """
    namespace forebay {
    double waited = 0;
    unsigned long waits = 0, drops = 0;
    void OnSojourn(ns3::Time t) { waited += t.GetSeconds(); ++waits; }
    void OnDrop(ns3::Ptr<const ns3::QueueDiscItem>) { ++drops; }
    void Watch(ns3::Ptr<ns3::QueueDisc> queue) {
        queue->TraceConnectWithoutContext("SojournTime", ns3::MakeCallback(&OnSojourn));
        queue->TraceConnectWithoutContext("Drop", ns3::MakeCallback(&OnDrop));
    }
    unsigned long Received(ns3::Ptr<ns3::Application> sink) {
        return ns3::DynamicCast<ns3::PacketSink>(sink)->GetTotalRx();
    }
    }
    """
)


def settings():
    """What differs between ns-3's defaults and Linux, which the other simulator follows."""
    default = ns.Config.SetDefault
    default("ns3::TcpL4Protocol::SocketType", ns.TypeIdValue(ns.TcpCubic.GetTypeId()))
    default("ns3::TcpSocket::SegmentSize", ns.UintegerValue(1448))
    default("ns3::TcpSocket::InitialCwnd", ns.UintegerValue(10))
    default("ns3::TcpSocket::DelAckCount", ns.UintegerValue(2))
    default("ns3::TcpSocket::SndBufSize", ns.UintegerValue(16 << 20))
    default("ns3::TcpSocket::RcvBufSize", ns.UintegerValue(16 << 20))
    default("ns3::TcpSocketBase::Sack", ns.BooleanValue(True))
    default("ns3::TcpSocketBase::Timestamp", ns.BooleanValue(True))
    default("ns3::TcpSocketBase::WindowScaling", ns.BooleanValue(True))
    default("ns3::TcpSocketBase::MinRto", ns.TimeValue(ns.MilliSeconds(200)))
    default("ns3::TcpSocketBase::ClockGranularity", ns.TimeValue(ns.MilliSeconds(1)))


def dumbbell(seconds):
    ns.RngSeedManager.SetSeed(SEED)
    settings()
    nodes = ns.NodeContainer()
    nodes.Create(2)
    link = ns.PointToPointHelper()
    link.SetDeviceAttribute("DataRate", ns.StringValue(RATE))
    link.SetChannelAttribute("Delay", ns.StringValue(DELAY))
    # What waits is to wait in the queue discipline and not in the device.
    link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", ns.StringValue("1p"))
    devices = link.Install(nodes)
    ns.InternetStackHelper().Install(nodes)
    control = ns.TrafficControlHelper()
    control.SetRootQueueDisc("ns3::FqCoDelQueueDisc", "MaxSize", ns.StringValue("10240p"))
    queues = control.Install(devices)
    ns.cppyy.gbl.forebay.Watch(queues.Get(0))
    addresses = ns.Ipv4AddressHelper()
    addresses.SetBase(ns.Ipv4Address("10.0.0.0"), ns.Ipv4Mask("255.255.255.0"))
    far = addresses.Assign(devices).GetAddress(1)
    sinks = ns.ApplicationContainer()
    starts = ns.CreateObject[ns.UniformRandomVariable]()
    for flow in range(FLOWS):
        port = 5000 + flow
        here = ns.InetSocketAddress(ns.Ipv4Address.GetAny(), port).ConvertTo()
        sinks.Add(ns.PacketSinkHelper("ns3::TcpSocketFactory", here).Install(nodes.Get(1)))
        there = ns.InetSocketAddress(far, port).ConvertTo()
        bulk = ns.BulkSendHelper("ns3::TcpSocketFactory", there)
        # The send buffer is always full; how it is filled is never the limit.
        bulk.SetAttribute("SendSize", ns.UintegerValue(14480))
        bulk.Install(nodes.Get(0)).Start(ns.Seconds(starts.GetValue(0.0, 0.001)))
    sinks.Start(ns.Seconds(0))
    ns.Simulator.Stop(ns.Seconds(seconds))
    return sinks


def main():
    seconds = float(sys.argv[1])
    sinks = dumbbell(seconds)
    begin, on = time.monotonic(), time.process_time()
    ns.Simulator.Run()
    wall, cpu = time.monotonic() - begin, time.process_time() - on
    seen = ns.cppyy.gbl.forebay
    received = sum(seen.Received(sinks.Get(n)) for n in range(sinks.GetN()))
    result = {
        "simulator": "ns-3",
        "seconds": seconds,
        "wall_s": wall,
        "cpu_s": cpu,
        "goodput_mbps": received * 8 / seconds / 1e6,
        "mean_wait_ms": seen.waited / max(seen.waits, 1) * 1e3,
        "packets": seen.waits,
        "drops": seen.drops,
        "events": ns.Simulator.GetEventCount(),
    }
    print(json.dumps(result))
    ns.Simulator.Destroy()


main()
