package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-project/penstock/discovery/engine/fetch"
)

type modelCache struct {
	url   string
	limit int64 // in GiB
}

func (m *modelCache) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&m.url, "registry", "", "URL of a mirror of Hugging Face (default: $HF_ENDPOINT, or "+
		fetch.DefaultURL+")")
	modelsLimitFlag(cmd, &m.limit)
}

const maxModelsLimit = 1 << 30 // in GiB

func modelsLimitFlag(cmd *cobra.Command, limit *int64) {
	cmd.Flags().Int64Var(limit, "models-limit", 0, "largest size of all downloaded models together, in GiB; a "+
		"download beyond it fails (default: the disk's size without 1 GiB)")
}

func modelFetcher(limit int64) (*fetch.Fetcher, error) {
	if limit < 0 || limit > maxModelsLimit {
		return nil, fmt.Errorf("--models-limit %d: write a number of GiB", limit)
	}
	folder, err := fetch.Folder(os.Getenv)
	return fetch.New(fetch.Config{Folder: folder, Limit: limit << 30}), err
}

func (m *modelCache) pull(cmd *cobra.Command, text string) (fetch.Source, fetch.Model, error) {
	s, err := fetch.Parse(text)
	if err != nil {
		return s, fetch.Model{}, err
	}
	s.URL, s.Token = cmp.Or(m.url, os.Getenv("HF_ENDPOINT")), os.Getenv("HF_TOKEN")
	f, err := modelFetcher(m.limit)
	if err != nil {
		return s, fetch.Model{}, err
	}
	p := &progress{out: cmd.ErrOrStderr(), terminal: isTerminal(cmd.ErrOrStderr()), name: s.Name}
	model, err := f.Fetch(cmd.Context(), s, p.show)
	p.end()
	if err == nil && model.Offline {
		fmt.Fprintf(cmd.ErrOrStderr(), "the registry does not answer: using commit %s, which is there\n", model.Commit)
	}
	return s, model, err
}

// progress prints a download's progress: a bar on a terminal, otherwise a line for each tenth.
type progress struct {
	out      io.Writer
	terminal bool
	name     string
	began    time.Time
	first    int64 // bytes that were present before
	tenth    int64
	shown    bool
}

const barWidth = 30

func (p *progress) show(now fetch.Progress) {
	if p.began.IsZero() {
		p.began, p.first, p.tenth = time.Now(), now.Bytes, -1
	}
	if now.Size == 0 || now.Bytes == now.Size && !p.shown {
		return // nothing was downloaded
	}
	p.shown = true
	done := int(barWidth * now.Bytes / now.Size)
	text := fmt.Sprintf("%s of %s, file %d of %d", fetch.Size(now.Bytes), fetch.Size(now.Size),
		min(now.Files+1, now.Total), now.Total)
	if passed := time.Since(p.began).Seconds(); passed > 1 {
		text += fmt.Sprintf(", %s/s", fetch.Size(int64(float64(now.Bytes-p.first)/passed)))
	}
	if p.terminal {
		bar := strings.Repeat("#", done) + strings.Repeat(" ", barWidth-done)
		fmt.Fprintf(p.out, "\r\x1b[K%s [%s] %s", p.name, bar, text)
		return
	}
	if tenth := 10 * now.Bytes / now.Size; tenth > p.tenth {
		p.tenth = tenth
		fmt.Fprintf(p.out, "%s: %d %%, %s\n", p.name, 100*now.Bytes/now.Size, text)
	}
}

func (p *progress) end() {
	if p.terminal && p.shown {
		fmt.Fprintln(p.out)
	}
}

func newPull() *cobra.Command {
	var m modelCache
	cmd := &cobra.Command{
		Use:   "pull hf:ORG/NAME[@REVISION][:FILE]",
		Short: "Download a model from Hugging Face, and print its path",
		Long: `Download a model from Hugging Face into its own cache (HF_HUB_CACHE, by default
~/.cache/huggingface/hub), and print its path. What is there is not downloaded again, and an interrupted download
continues. All contents are compared with the hashes of the commit.

FILE is a file of the model, or the quantization of a GGUF, such as Q4_K_M. Without it, a model with safetensors is
downloaded without weights in other formats; of a model in GGUF alone, the only file, or the one with Q4_K_M.
HF_TOKEN is the credential for a model that needs one.`,
		Example: `  penstock pull hf:Qwen/Qwen2.5-0.5B-Instruct
  penstock pull hf:Qwen/Qwen2.5-0.5B-Instruct-GGUF:Q8_0`,
		Args: takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, model, err := m.pull(cmd, args[0])
			if err == nil {
				fmt.Fprintln(cmd.OutOrStdout(), model.Path)
			}
			return err
		},
	}
	m.flags(cmd)
	return cmd
}

func newModels() *cobra.Command {
	return &cobra.Command{
		Use:   "models",
		Short: "List the models that are downloaded",
		Long: `List the models in Hugging Face's cache (HF_HUB_CACHE, by default ~/.cache/huggingface/hub), which
penstock and other programs have downloaded.`,
		Example: `  penstock models`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := modelFetcher(0)
			if err != nil {
				return err
			}
			all, err := f.Cached()
			if err != nil {
				return err
			}
			return printModels(cmd.OutOrStdout(), all)
		},
	}
}

func printModels(out io.Writer, all []fetch.Cached) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MODEL\tSIZE\tREVISION\tCOMMIT")
	for _, m := range all {
		size := fetch.Size(m.Bytes)
		if m.Partial > 0 {
			size += " and " + fetch.Size(m.Partial) + " of a download"
		}
		for _, commit := range m.Commits {
			var refs []string
			for ref, at := range m.Refs {
				if at == commit {
					refs = append(refs, ref)
				}
			}
			slices.Sort(refs)
			fmt.Fprintf(w, "hf:%s\t%s\t%s\t%s\n", m.Name, size, cmp.Or(strings.Join(refs, " "), "-"), commit)
		}
		if len(m.Commits) == 0 {
			fmt.Fprintf(w, "hf:%s\t%s\t-\t-\n", m.Name, size)
		}
	}
	return w.Flush()
}

func newRm() *cobra.Command {
	return &cobra.Command{
		Use:   "rm hf:ORG/NAME",
		Short: "Remove a downloaded model with all its revisions",
		Long: `Remove a model with all its revisions from Hugging Face's cache. A model server that runs keeps its
files until it ends. A deployment of the model downloads it again when its server starts again.`,
		Example: `  penstock rm hf:Qwen/Qwen2.5-0.5B-Instruct`,
		Args:    takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := fetch.Parse(args[0])
			if err != nil {
				return err
			}
			if s.Revision != "" || s.File != "" {
				return fmt.Errorf("%s: write hf:%s: all revisions and files are removed together", args[0], s.Name)
			}
			f, err := modelFetcher(0)
			if err != nil {
				return err
			}
			bytes, err := f.Remove(s.Name)
			if err == nil {
				fmt.Fprintf(cmd.OutOrStdout(), "removed %s of hf:%s\n", fetch.Size(bytes), s.Name)
			}
			return err
		},
	}
}
