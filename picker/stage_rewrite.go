package picker

// rewrite draws the model that replaces the one in the body, by the rules that read has found.
// extproc replaces it. It ends no pick.
func rewrite(k *pick) {
	if k.rules != nil {
		k.drawn = k.rules.target(k.asked)
	}
}

// rewritten is rewrite for a reader.
func rewritten(r *Record) string {
	if r.Served == "" {
		return ""
	}
	return "model " + r.Model + " becomes " + r.Served
}
