package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// The simulated set.
const (
	syncMembers = 100
	syncPools   = 100
	syncTurns   = 3
	syncChanges = 200
	syncIdle    = 10 * time.Second // two renewals of each member
)

// measureSync measures an importer of 100 members: how long the first sync takes, what one change
// costs, and memory.
func measureSync(ctx context.Context, c config, out report) error {
	members, stop, err := simulateSet(func(number int) string { return fmt.Sprintf("pool-%03d", number) })
	if err != nil {
		return err
	}
	defer func() { stop() }()
	var plain *plainStreams
	defer func() { plain.stop() }()
	var ours, streams []time.Duration
	var bytes int64 // that members send
	for turn := range syncTurns {
		took, err := syncOnce(ctx, c, members, turn == syncTurns-1, out)
		if err != nil {
			return err
		}
		ours = append(ours, took)
		if plain == nil {
			for _, m := range members {
				bytes += m.sent.Load()
			}
			if plain, err = newStreams(syncMembers, int(bytes/syncMembers)); err != nil {
				return err
			}
		}
		if took, err = plain.read(ctx); err != nil {
			return err
		}
		streams = append(streams, took)
	}
	sync, plainTook := median(ours), median(streams)
	out("mc_sync", "", float64(sync)/float64(plainTook))
	out("mc_sync", "ours", milliseconds(sync))
	out("mc_sync", "streams", milliseconds(plainTook))
	out("mc_sync", "bytes", float64(bytes)/(1<<20))
	stop()
	members, stop, err = simulateSet(func(int) string { return "pool" })
	if err != nil {
		return err
	}
	shared, err := syncOnce(ctx, c, members, false, out)
	out("mc_sync", "shared", milliseconds(shared))
	return err
}

// simulateSet starts all members, with pools whose names begin with what names returns for a
// member's number.
func simulateSet(names func(number int) string) (members []*simulatedMember, stop func(), err error) {
	stop = func() {
		for _, m := range members {
			m.stop()
		}
	}
	for n := range syncMembers {
		m, err := simulate(n+1, syncPools, names(n+1))
		if err != nil {
			stop()
			return nil, nil, err
		}
		members = append(members, m)
	}
	return members, stop, nil
}

// syncOnce starts an importer and returns how long it takes from the ClusterSet with all members to
// the last endpoint in its store. last: it also measures changes and memory.
func syncOnce(ctx context.Context, c config, members []*simulatedMember, last bool, out report) (time.Duration, error) {
	i, err := newImporter(ctx, c)
	if err != nil {
		return 0, err
	}
	defer i.stop()
	if _, err := i.settled(ctx, time.Second); err != nil {
		return 0, err
	}
	alone, err := i.rss()
	if err != nil {
		return 0, err
	}
	start := time.Now()
	if err := i.join(members); err != nil {
		return 0, err
	}
	at, err := i.wait(ctx, len(members)*syncPools)
	if err != nil || !last {
		return at.Sub(start), err
	}
	large, err := i.changes(ctx, members)
	if err != nil {
		return 0, err
	}
	with, err := i.rss()
	if err != nil {
		return 0, err
	}
	out("mc_memory", "", with-alone)
	out("mc_memory", "none", alone)
	one, err := simulate(101, 1, "pool-101")
	if err != nil {
		return 0, err
	}
	defer one.stop()
	j, err := newImporter(ctx, c)
	if err != nil {
		return 0, err
	}
	defer j.stop()
	if err := j.join([]*simulatedMember{one}); err != nil {
		return 0, err
	}
	if _, err := j.wait(ctx, 1); err != nil {
		return 0, err
	}
	small, err := j.changes(ctx, []*simulatedMember{one})
	if err != nil {
		return 0, err
	}
	out("mc_change_cpu", "", float64(large.cpu)/float64(small.cpu))
	out("mc_change_cpu", "at_100", milliseconds(large.cpu))
	out("mc_change_cpu", "at_1", milliseconds(small.cpu))
	out("mc_change_cpu", "idle", 100*large.idle)
	out("mc_change_cpu", "time", milliseconds(large.took))
	return at.Sub(start), nil
}

// changed is what one change costs an importer.
type changed struct {
	cpu, took time.Duration
	idle      float64 // share of a core that the process uses without changes
}

// changes changes one endpoint after the other, and returns the importer's CPU of one, less what it
// uses anyway.
func (i *importer) changes(ctx context.Context, members []*simulatedMember) (is changed, err error) {
	before, err := i.idle(ctx)
	for range 6 { // until what the sync left to do is done
		last := before
		if before, err = i.idle(ctx); err != nil || before > last*0.8 {
			break
		}
	}
	if err != nil {
		return is, err
	}
	used, err := i.cpu()
	if err != nil {
		return is, err
	}
	var times []time.Duration
	start := time.Now()
	for n := range syncChanges {
		m := members[n*37%len(members)]
		began := time.Now()
		offer, err := m.change(n%len(m.exports), n+1)
		if err != nil {
			return is, err
		}
		at, err := next(ctx, i.events, offer, began)
		if err != nil {
			return is, err
		}
		times = append(times, at.Sub(began))
	}
	lasted := time.Since(start)
	now, err := i.cpu()
	if err != nil {
		return is, err
	}
	after, err := i.idle(ctx)
	is.took, is.idle = median(times), (before+after)/2
	is.cpu = max((now-used-time.Duration(is.idle*float64(lasted)))/syncChanges, time.Microsecond)
	return is, err
}

// idle is the share of a core that the importer uses without changes: for the members' renewals.
func (i *importer) idle(ctx context.Context) (float64, error) {
	before, err := i.cpu()
	if err != nil {
		return 0, err
	}
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(syncIdle):
	}
	after, err := i.cpu()
	return (after - before).Seconds() / syncIdle.Seconds(), err
}

// readerEnv makes this program read streams: plainStreams's other side.
const readerEnv = "PENSTOCK_BENCH_STREAMS"

// plainStreams are servers that send a number of bytes over mTLS, and a client in another process
// that reads them.
type plainStreams struct {
	addresses []string
	servers   []*grpc.Server
}

func newStreams(servers, size int) (*plainStreams, error) {
	p := &plainStreams{}
	payload := wrapperspb.Bytes(make([]byte, size))
	for i := range payload.GetValue() {
		payload.Value[i] = byte(i)
	}
	for range servers {
		cert, _, err := issue("spiffe://stream/x")
		if err != nil {
			return nil, err
		}
		s := grpc.NewServer(
			grpc.Creds(
				credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*cert},
					ClientAuth: tls.RequireAnyClientCert})))
		s.RegisterService(&grpc.ServiceDesc{ServiceName: "bench", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{{
			StreamName: "Read", ServerStreams: true,
			Handler: func(_ any, stream grpc.ServerStream) error { return stream.SendMsg(payload) },
		}}}, p)
		address, err := serve(s)
		if err != nil {
			return nil, err
		}
		p.servers, p.addresses = append(p.servers, s), append(p.addresses, address)
	}
	return p, nil
}

func (p *plainStreams) stop() {
	if p == nil {
		return
	}
	for _, s := range p.servers {
		s.Stop()
	}
}

// read has another process read all streams, and returns how long that takes.
func (p *plainStreams) read(ctx context.Context) (took time.Duration, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), readerEnv+"="+strings.Join(p.addresses, ","))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = dieWithParent()
	in, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	outPipe, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	lines := bufio.NewScanner(outPipe)
	expect := func(word string) error {
		if !lines.Scan() || lines.Text() != word {
			return errors.Join(fmt.Errorf("the reader wrote %q, not %s", lines.Text(), word), lines.Err())
		}
		return nil
	}
	err = expect("ready")
	start := time.Now()
	if err == nil {
		_, err = fmt.Fprintln(in, "go")
	}
	if err == nil {
		err = expect("done")
	}
	took = time.Since(start)
	return took, errors.Join(err, cmd.Wait())
}

// asReader runs the reader, if this process is to be one.
func asReader() {
	addresses := os.Getenv(readerEnv)
	if addresses == "" {
		return
	}
	if err := runReader(strings.Split(addresses, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "reader:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func runReader(addresses []string) error {
	cert, _, err := issue("spiffe://reader/x")
	if err != nil {
		return err
	}
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	// on loopback, to measure
	creds := credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*cert},
		InsecureSkipVerify: true})
	var group errgroup.Group
	for _, a := range addresses {
		group.Go(func() error {
			conn, err := grpc.NewClient(a, grpc.WithTransportCredentials(creds))
			if err != nil {
				return err
			}
			stream, err := conn.NewStream(context.Background(),
				&grpc.StreamDesc{StreamName: "Read", ServerStreams: true}, "/bench/Read")
			if err != nil {
				return err
			}
			if err := stream.CloseSend(); err != nil {
				return err
			}
			return stream.RecvMsg(new(wrapperspb.BytesValue))
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	fmt.Println("done")
	return nil
}
