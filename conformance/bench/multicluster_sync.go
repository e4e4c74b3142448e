package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	syncMembers = 100
	syncPools   = 100
	syncTurns   = 3
)

func measureSync(ctx context.Context, c config, out report) error {
	var members []*simulatedMember
	defer func() {
		for _, m := range members {
			m.stop()
		}
	}()
	for n := range syncMembers {
		m, err := simulate(n+1, syncPools)
		if err != nil {
			return err
		}
		members = append(members, m)
	}
	var plain *plainStreams
	defer func() { plain.stop() }()
	var ours, streams []time.Duration
	var bytes int64
	for range syncTurns {
		took, err := syncOnce(ctx, c, members)
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
	out("mc_sync", "", float64(median(ours))/float64(median(streams)))
	out("mc_sync", "ours", milliseconds(median(ours)))
	out("mc_sync", "streams", milliseconds(median(streams)))
	out("mc_sync", "bytes", float64(bytes)/(1<<20))
	return nil
}

// syncOnce measures the time from a ClusterSet with all members to the importer's last endpoint.
func syncOnce(ctx context.Context, c config, members []*simulatedMember) (time.Duration, error) {
	i, err := newImporter(ctx, c)
	if err != nil {
		return 0, err
	}
	defer i.stop()
	if err := i.settled(ctx, time.Second); err != nil {
		return 0, err
	}
	start := time.Now()
	if err := i.join(members); err != nil {
		return 0, err
	}
	at, err := i.wait(ctx, len(members)*syncPools)
	return at.Sub(start), err
}

const readerEnv = "PENSTOCK_BENCH_STREAMS"

// plainStreams are gRPC servers that send as many bytes over mTLS.
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
		cert, _, err := issue("stream", "/x")
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

func (p *plainStreams) read(ctx context.Context) (took time.Duration, err error) {
	cmd, err := again(readerEnv + "=" + strings.Join(p.addresses, ","))
	if err != nil {
		return 0, err
	}
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
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })()
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

func runReader(addresses string) error {
	cert, _, err := issue("reader", "/x")
	if err != nil {
		return err
	}
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	creds := credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*cert},
		InsecureSkipVerify: true})
	var group errgroup.Group
	for _, a := range strings.Split(addresses, ",") {
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
