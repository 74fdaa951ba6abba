"""The paper's commands: best-worst scaling, and multiple choice by a language model."""
