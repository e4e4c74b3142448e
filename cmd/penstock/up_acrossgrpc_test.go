package main

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func TestGRPCRoute_CallsReachOtherClusters(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	here := up(t, map[string]string{
		"gateway.yaml": gatewayYAML("gw", port), "set.yaml": clusterSetYAML("here"),
		"route.yaml": "apiVersion: gateway.networking.k8s.io/v1\nkind: GRPCRoute\nmetadata: {name: chat}\nspec:\n  " +
			"parentRefs: [{name: gw}]\n  rules:\n  - backendRefs: [" + toImport("chat") + "]\n",
	}, "--members-listen", "127.0.0.1:"+fmt.Sprint(freePort(t)))
	for _, name := range []string{"east", "west"} {
		files := chatFiles(freePort(t), grpcServer(t, name))
		annotations := exportAnnotation
		files["set.yaml"] = clusterSetYAML(name)
		if name == "west" {
			annotations += ", inference.networking.x-k8s.io/export-mode: ParentMode"
			files["set.yaml"] = withPeers(files["set.yaml"], freePort(t))
		}
		files["pool.yaml"] = strings.Replace(exportedPool(annotations), "spec:",
			"spec:\n  appProtocol: kubernetes.io/h2c", 1)
		here.join(up(t, files, "--members-listen", "127.0.0.1:"+fmt.Sprint(freePort(t)), "--picker",
			"127.0.0.1:"+fmt.Sprint(freePort(t))))
	}
	conn, err := grpc.NewClient(fmt.Sprintf("127.0.0.1:%d", port),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	by := map[string]bool{}
	eventually(t, "both clusters answer calls", func() error {
		got := call(t.Context(), conn, "/llm.Chat/Complete")
		if by[got] = true; !by["east: hello"] || !by["west: hello"] {
			return fmt.Errorf("answers: got %v, want east and west; status:\n%s", by, here.penstock("status"))
		}
		return nil
	})
	streamed := map[string]bool{}
	eventually(t, "both clusters answer streams", func() error {
		stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
			"/llm.Chat/Talk")
		if err != nil {
			return err
		}
		name := ""
		for i := range 3 {
			var got wrapperspb.StringValue
			if err := stream.SendMsg(wrapperspb.String(fmt.Sprint(i))); err != nil {
				return err
			}
			if err := stream.RecvMsg(&got); err != nil {
				return err
			}
			var ok bool
			if name, ok = strings.CutSuffix(got.Value, fmt.Sprintf(": %d", i)); !ok {
				return fmt.Errorf("message %d is answered %q, want its number", i, got.Value)
			}
		}
		if err := stream.CloseSend(); err != nil {
			return err
		}
		if streamed[name] = true; !streamed["east"] || !streamed["west"] {
			return fmt.Errorf("streams: got %v, want east and west", streamed)
		}
		return nil
	})
}
