package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/cmd/penstock/internal/state"
	"github.com/penstock-project/penstock/discovery/engine/catalog"
	"github.com/penstock-project/penstock/discovery/engine/controller"
	"github.com/penstock-project/penstock/discovery/engine/deployment"
	"github.com/penstock-project/penstock/discovery/engine/devices"
	"github.com/penstock-project/penstock/discovery/file"
	"github.com/penstock-project/penstock/discovery/filesystem"
	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/statefile"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/xds/xdstest/freeport"
)

const (
	runGateway     = "run"
	runNamespace   = "default"
	runPort        = 8080
	runGatewayFile = "gateway.yaml"
)

type runOptions struct {
	name      string
	replicas  int32
	variables []string
	gpu       string
	devices   int
	models    modelCache
	served    string // name of a downloaded model; "" means that the argument has it
}

func newRun() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run ENGINE/MODEL | file:PATH | hf:ORG/NAME[@REVISION][:FILE]",
		Short: "Start a model server and a gateway in front of it, without any file",
		Long: `Start a model server and a gateway in front of it, without any file, in the foreground, and print a
request that it answers. The engine is vllm, llama-cpp or sim; file:PATH.gguf runs llama-cpp.
hf:ORG/NAME downloads a model as penstock pull does; a GGUF runs in llama-cpp, and other models in vllm. The gateway
listens on 127.0.0.1, at port 8080 or at a free one.

A second penstock run adds its model to the gateway that runs. Ctrl-C and penstock down end the model servers. After
SIGTERM or a crash they continue, and the next penstock run adopts them. The objects are written to a folder below
$XDG_STATE_HOME/penstock; penstock up -f FOLDER does the same for files of your own.`,
		Example: `  penstock run sim/qwen
  penstock run file:qwen2.5-0.5b-instruct-q4_k_m.gguf --set ctx-size=8192
  penstock run hf:Qwen/Qwen2.5-0.5B-Instruct-GGUF:Q4_K_M
  penstock run vllm/Qwen/Qwen2.5-0.5B-Instruct --set max-model-len=4096 --set enforce-eager=true`,
		Args: takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0]) },
	}
	f := cmd.Flags()
	f.StringVar(&o.name, "name", "", "name of the ModelDeployment (default: from the model)")
	f.Int32Var(&o.replicas, "replicas", 1, "number of servers")
	f.StringVar(&o.gpu, "gpu", "", "accelerators of each server: a number, or a fraction below 1 of one (default: not "+
		"restricted)")
	devicesFlag(cmd, &o.devices)
	o.models.flags(cmd)
	f.StringArrayVar(&o.variables, "set", nil, "argument of the engine, as NAME=VALUE; VALUE is a text or JSON; may "+
		"be repeated (default: none)")
	return cmd
}

func runFolder() (string, error) {
	home, err := state.Home()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, "run"), nil
}

func (o *runOptions) run(cmd *cobra.Command, what string) error {
	if strings.HasPrefix(what, "hf:") {
		s, model, err := o.models.pull(cmd, what)
		if err != nil {
			return err
		}
		what, o.served = "vllm/"+model.Path, s.Name
		if strings.HasSuffix(model.Path, ".gguf") {
			what = "file:" + model.Path
		}
	}
	d, err := o.deployment(what)
	if err != nil {
		return err
	}
	if err := checkDeployment(cmd.Context(), d); err != nil {
		return err
	}
	folder, err := runFolder()
	if err != nil {
		return err
	}
	if err := state.Open(folder); err != nil {
		return err
	}
	port, err := writeGateway(filepath.Join(folder, runGatewayFile))
	if err != nil {
		return err
	}
	file := filepath.Join(folder, d.Name+".yaml")
	before, err := statefile.Read(statefile.Machine{}, file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := writeObject(file, d); err != nil {
		return err
	}
	s := service{files: files{paths: []string{folder}}}
	dir, err := s.stateDir()
	if err != nil {
		return err
	}
	r := &modelRun{cmd: cmd, deployment: d, port: port}
	if runningFor(dir).get(cmd.Context(), "/status", &status.Document{}) == nil {
		if o.devices != 0 {
			fmt.Fprintln(cmd.ErrOrStderr(), "--devices has no effect: the process that runs has its own")
		}
		return r.add(dir, file, before)
	}
	return r.up(folder, o.devices, o.models.limit)
}

var notInName = regexp.MustCompile(`[^a-z0-9]+`)

func (o *runOptions) deployment(what string) (*v1alpha1.ModelDeployment, error) {
	d := &v1alpha1.ModelDeployment{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.Group + "/" + v1alpha1.Version, Kind: "ModelDeployment"}}
	d.Namespace = runNamespace
	d.Spec.Replicas = &o.replicas
	d.Spec.GatewayRefs = []v1alpha1.DeploymentGateway{{Name: runGateway}}
	if path, ok := strings.CutPrefix(what, "file:"); ok {
		if !strings.HasSuffix(path, ".gguf") {
			return nil, fmt.Errorf("%s: write the path of a .gguf file, or ENGINE/MODEL", what)
		}
		if err := absolute(&path); err != nil {
			return nil, err
		}
		if _, err := new(filesystem.Disk).Stat(path); err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		d.Spec.Engine.Name = "llama-cpp"
		d.Spec.Model.Name = strings.TrimSuffix(filepath.Base(path), ".gguf")
		d.Spec.Model.File = path
	} else {
		engine, model, found := strings.Cut(what, "/")
		if _, known := catalog.Get(engine); !known || !found || model == "" {
			fix := "write ENGINE/MODEL, with an engine of " + strings.Join(catalog.Names(), ", ") + "; or file:PATH"
			if near := report.Nearest(engine, catalog.Names()); near != "" && model != "" && !known {
				fix = "write " + near + "/" + model
			}
			return nil, fmt.Errorf("%q is no model: %s", what, fix)
		}
		d.Spec.Engine.Name, d.Spec.Model.Name = engine, model
	}
	if o.served != "" {
		d.Spec.Model.File = strings.TrimPrefix(strings.TrimPrefix(what, "file:"), "vllm/")
		d.Spec.Model.Name = o.served
	}
	last := d.Spec.Model.Name[strings.LastIndexByte(d.Spec.Model.Name, '/')+1:]
	d.Name = cmp.Or(o.name, strings.Trim(notInName.ReplaceAllString(strings.ToLower(last), "-"), "-"))
	if d.Name == "" || d.Name+".yaml" == runGatewayFile {
		return nil, fmt.Errorf("%q gives no name: add --name", what)
	}
	if o.gpu != "" {
		if _, err := devices.ParseShare(o.gpu); err != nil {
			return nil, fmt.Errorf("--gpu: %w", err)
		}
		d.Spec.Resources.GPU = &v1alpha1.DeviceCount{Text: o.gpu}
	}
	for _, v := range o.variables {
		name, value, ok := strings.Cut(v, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--set %q: write NAME=VALUE", v)
		}
		raw := []byte(value)
		if !json.Valid(raw) {
			raw, _ = json.Marshal(value)
		}
		if d.Spec.Variables == nil {
			d.Spec.Variables = map[string]apiextensionsv1.JSON{}
		}
		d.Spec.Variables[name] = apiextensionsv1.JSON{Raw: raw}
	}
	return d, nil
}

var fieldFlags = strings.NewReplacer("spec.variables.", "--set ", deployment.FieldGPU, "--gpu", "spec.replicas",
	"--replicas", "metadata.name", "--name")

func checkDeployment(ctx context.Context, d *v1alpha1.ModelDeployment) error {
	found, err := mistakes(ctx, d)
	if err != nil {
		return err
	}
	_, more := deployment.New(d, nil)
	for _, f := range append(found, more...) {
		if f.Severity == report.Error {
			return fmt.Errorf("%s: %s; %s", fieldFlags.Replace(f.Field), f.Problem, f.Fix)
		}
	}
	return nil
}

// mistakes returns the findings of an object that penstock up reads from a file.
func mistakes(ctx context.Context, obj any) (found []report.Finding, err error) {
	dir, err := os.MkdirTemp("", "penstock-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := writeObject(filepath.Join(dir, "object.yaml"), obj); err != nil {
		return nil, err
	}
	reader, err := file.New(file.Config{Paths: []string{dir}, Store: store.New(), Log: slog.New(slog.DiscardHandler),
		Report: func(reports []report.Report) {
			for _, r := range reports {
				found = append(found, r.Findings...)
			}
		}})
	if err != nil {
		return nil, err
	}
	return found, reader.Load(ctx)
}

func writeObject(path string, obj any) error {
	raw, err := yaml.Marshal(obj)
	if err != nil {
		return err
	}
	return statefile.Replace(path, raw)
}

// writeGateway returns the port of the Gateway in path, which it writes if there is none.
func writeGateway(path string) (port int32, err error) {
	if raw, err := statefile.Read(statefile.Machine{}, path); err == nil {
		var gw gatewayv1.Gateway
		if yaml.Unmarshal(raw, &gw) == nil && len(gw.Spec.Listeners) == 1 {
			return int32(gw.Spec.Listeners[0].Port), nil
		}
	}
	port, err = choosePort()
	if err != nil {
		return 0, err
	}
	return port, writeObject(path, map[string]any{
		"apiVersion": gatewayv1.GroupVersion.String(), "kind": "Gateway",
		"metadata": map[string]any{"namespace": runNamespace, "name": runGateway},
		"spec": map[string]any{"gatewayClassName": "penstock",
			"addresses": []any{map[string]any{"type": "IPAddress", "value": "127.0.0.1"}},
			"listeners": []any{map[string]any{"name": "http", "port": port, "protocol": "HTTP"}}},
	})
}

func choosePort() (int32, error) {
	if freeport.Free(runPort) {
		return runPort, nil
	}
	port, err := freeport.Find()
	return int32(port), err
}

type modelRun struct {
	cmd        *cobra.Command
	deployment *v1alpha1.ModelDeployment
	port       int32
	phase      string
	accepted   bool            // condition Accepted was True once
	printed    map[string]bool // current errors and warnings
}

// up runs penstock up for the folder. Ctrl-C removes all deployments.
func (r *modelRun) up(folder string, devices int, modelsLimit int64) error {
	s := service{devices: devices, modelsLimit: modelsLimit}
	up := &cobra.Command{}
	s.upFlags(up)
	up.SetContext(r.cmd.Context())
	up.SetOut(r.cmd.OutOrStdout())
	up.SetErr(r.cmd.ErrOrStderr())
	s.paths = []string{folder}
	s.phaseLine = func(id, phase, message string) string {
		if id != store.ID(r.deployment) {
			return "" // another penstock run prints it
		}
		return r.line(phase, message)
	}
	err := s.up(up, 0)
	if endsEngines(r.cmd.Context()) {
		err = errors.Join(err, removeDeployments(folder))
	}
	return err
}

func removeDeployments(folder string) error {
	list, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	for _, file := range list {
		err = errors.Join(err, removeFile(file))
	}
	return err
}

// removeFile removes a file. penstock down may have removed it already.
func removeFile(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// add follows a deployment that another process serves. Ctrl-C removes it. If it is not accepted,
// add restores the file's content before; nil removes the file.
func (r *modelRun) add(stateDir, file string, before []byte) error {
	ctx := r.cmd.Context()
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for {
		var doc status.Document
		err := runningFor(stateDir).get(ctx, "/status", &doc)
		switch {
		case ctx.Err() != nil:
			if endsEngines(ctx) {
				return removeFile(file)
			}
			return nil
		case err != nil:
			return r.alone(err, file)
		}
		accepted := r.show(&doc)
		if r.accepted = r.accepted || accepted == metav1.ConditionTrue; accepted == metav1.ConditionFalse &&
			(before != nil || !r.accepted) {
			err := fmt.Errorf("ModelDeployment %s is not accepted, so nothing is added or changed",
				store.ID(r.deployment))
			if before != nil {
				return errors.Join(err, statefile.Replace(file, before))
			}
			return errors.Join(err, removeFile(file))
		}
		select {
		case <-ctx.Done():
		case <-again.C:
		}
	}
}

// show prints new errors, warnings and phases. It returns the status of condition Accepted; Unknown
// if there is none yet.
func (r *modelRun) show(doc *status.Document) metav1.ConditionStatus {
	accepted, printed := metav1.ConditionUnknown, map[string]bool{}
	for _, f := range doc.Findings {
		if f.Owner.Kind != r.deployment.Kind || f.Owner.Key() != store.ID(r.deployment) || f.Severity == report.Info {
			continue
		}
		text := fmt.Sprintf("%s: %s", f.Severity, f)
		if printed[text] = true; !r.printed[text] {
			fmt.Fprintln(r.cmd.ErrOrStderr(), text)
		}
	}
	r.printed = printed
	for _, o := range doc.Objects {
		if o.Kind != r.deployment.Kind || o.Key() != store.ID(r.deployment) {
			continue
		}
		for _, c := range o.Status.Conditions {
			switch c.Type {
			case controller.ConditionAccepted:
				accepted = c.Status
			case controller.ConditionReady:
				if line := r.line(c.Reason, c.Message); line != "" {
					fmt.Fprintln(r.cmd.OutOrStdout(), line)
				}
			}
		}
	}
	return accepted
}

func (r *modelRun) alone(err error, file string) error {
	if _, gone := new(filesystem.Disk).Stat(file); errors.Is(gone, fs.ErrNotExist) {
		return errors.New("penstock down, or Ctrl-C of the first penstock run, has ended the gateway and all model " +
			"servers")
	}
	return fmt.Errorf("the process with the gateway has ended: run this command again, which adopts the model servers "+
		"that still run: %w", err)
}

// line formats a new phase, with an example request if it runs; "" if the phase is not new.
func (r *modelRun) line(phase, message string) string {
	if phase == r.phase {
		return ""
	}
	r.phase = phase
	id := objectid.Join(r.deployment.Namespace, r.deployment.Name)
	if phase != controller.RunningReason {
		return phaseLine(id, phase, message)
	}
	return fmt.Sprintf("ModelDeployment %s is %s. Try:\n\n  %s\n", id, phase, r.request())
}

func (r *modelRun) request() string {
	body, _ := json.Marshal(map[string]any{"model": r.deployment.Spec.Model.Name,
		"messages": []any{map[string]string{"role": "user", "content": "Hello"}}})
	return fmt.Sprintf("curl -s http://localhost:%d/v1/chat/completions -H 'content-type: application/json' -d '%s'",
		r.port, strings.ReplaceAll(string(body), "'", `'\''`))
}

// endsEngines reports whether Ctrl-C or SIGHUP ended the process, which end model servers, too.
func endsEngines(ctx context.Context) bool {
	cause := context.Cause(ctx)
	if cause == nil {
		return false
	}
	return strings.HasPrefix(cause.Error(), os.Interrupt.String()) ||
		strings.HasPrefix(cause.Error(), syscall.SIGHUP.String())
}
