// Prints the status that kstatus computes, one JSON object a line, for each object read from standard input, one JSON object a line.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

const maxLineBytes = 16 << 20

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, maxLineBytes)
	encoder := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		if err := printStatus(lines.Bytes(), encoder); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func printStatus(line []byte, encoder *json.Encoder) error {
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal(line, object); err != nil {
		return err
	}
	result, err := status.Compute(object)
	if err != nil {
		return err
	}
	return encoder.Encode(map[string]string{"status": result.Status.String(), "message": result.Message})
}
